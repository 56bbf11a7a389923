"""Deployments, ReplicaSets, StatefulSets, DaemonSets and Jobs: a selector, a template, and how many."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from jettison.apiserver.validation.metadata import validate_labels
from jettison.apiserver.validation.mistakes import Mistake, invalid, required, unsupported
from jettison.apiserver.validation.pods import validate_pod_spec
from jettison.apiserver.validation.selectors import validate_selector
from jettison.engine.label_selectors import MatchExpression, SelectorObject, select
from jettison.errors import InputError

Json = dict[str, Any]
Check = Callable[[Json], Iterator[Mistake]]
CheckUpdate = Callable[[Json, Json], Iterator[Mistake]]

_NOT_NEGATIVE = "must be greater than or equal to 0"


def workload_checks(kind: str, *numbers: str, further: Check | None = None) -> tuple[Check, CheckUpdate]:
    """For a kind that keeps its pods running; `numbers` are the fields of its spec that must not be negative.

    Only fields that the kind has may be looked at: what is unknown to it passed the door unchecked.
    """

    def validate(workload: Json) -> Iterator[Mistake]:
        spec = workload["spec"]
        yield from _validate_numbers(spec, numbers)
        yield from _validate_selector(spec, kind)
        yield from _validate_template(spec["template"], ("Always",))
        if further is not None:
            yield from further(workload)

    def validate_update(new: Json, old: Json) -> Iterator[Mistake]:
        """The selector is for ever: other pods would be left behind."""
        yield from validate(new)
        if new["spec"].get("selector") != old["spec"].get("selector"):
            yield invalid("spec.selector", new["spec"].get("selector"), "field is immutable")

    return validate, validate_update


def validate_job(job: Json) -> Iterator[Mistake]:
    """A new one whose pods are to end."""
    spec = job["spec"]
    numbers = ("parallelism", "completions", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished")
    yield from _validate_numbers(spec, numbers)
    if spec.get("completionMode") == "Indexed" and "completions" not in spec:
        yield required("spec.completions", "when completion mode is Indexed")
    yield from _validate_selector(spec, "job")
    yield from _validate_template(spec["template"], ("OnFailure", "Never"))


def validate_job_update(new: Json, old: Json) -> Iterator[Mistake]:
    """Neither selector nor template may change."""
    yield from validate_job(new)
    for key in ("selector", "template"):
        if new["spec"].get(key) != old["spec"].get(key):
            yield invalid(f"spec.{key}", new["spec"].get(key), "field is immutable")


def selects(selector: Json, labels: dict[str, str]) -> bool:
    """Whether a selector takes these labels; one that makes no sense takes nothing."""
    expressions = (
        MatchExpression(each["key"], each["operator"], tuple(each.get("values") or ()))
        for each in selector.get("matchExpressions") or ()
    )
    try:
        return select(SelectorObject(selector.get("matchLabels") or {}, tuple(expressions))).matches(labels)
    except InputError:
        return False


def _validate_numbers(spec: Json, keys: tuple[str, ...]) -> Iterator[Mistake]:
    for key in keys:
        if spec.get(key, 0) < 0:
            yield invalid(f"spec.{key}", spec[key], _NOT_NEGATIVE)


def _validate_selector(spec: Json, kind: str) -> Iterator[Mistake]:
    selector = spec.get("selector")
    if selector is None:
        yield required("spec.selector")
        return
    yield from validate_selector(selector, "spec.selector")
    if not selector:
        yield invalid("spec.selector", selector, f"empty selector is invalid for {kind}")
        return
    labels = spec["template"]["metadata"].get("labels") or {}
    if not selects(selector, labels):
        yield invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")


def _validate_template(template: Json, policies: tuple[str, ...]) -> Iterator[Mistake]:
    yield from validate_labels(template["metadata"].get("labels") or {}, "spec.template.metadata.labels")
    yield from validate_pod_spec(template["spec"], "spec.template.spec")
    policy = template["spec"]["restartPolicy"]
    if policy not in policies:
        yield unsupported("spec.template.spec.restartPolicy", policy, policies)
