"""Jobs: pods that are to end, and what becomes of those that do not end well."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from jettison.apiserver.objects.validation.metadata import validate_selector
from jettison.apiserver.objects.validation.mistakes import Mistake, invalid, required, unsupported
from jettison.apiserver.objects.validation.pod_updates import spec_value
from jettison.apiserver.objects.validation.resources import NOT_NEGATIVE
from jettison.apiserver.objects.validation.workloads import selects, sorted_labels, validate_template
from jettison.engine.labels.syntax import label_key_complaints
from jettison.errors import InputError

Json = dict[str, Any]

_COUNTS: Final = (
    "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished",
    "backoffLimitPerIndex", "maxFailedIndexes",
)  # fmt: skip
_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
_STATUSES: Final = ("False", "True", "Unknown")
_FIXED: Final = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
_IMMUTABLE: Final = "field is immutable"


def validate_job(job: Json) -> Iterator[Mistake]:
    """A new one."""
    yield from _validate_spec(job["spec"])


def validate_job_update(new: Json, old: Json) -> Iterator[Mistake]:
    """Neither selector nor template may change. Kubernetes looks at the rest twice."""
    yield from _validate_spec(new["spec"])
    yield from _validate_spec(new["spec"])
    spec, former = new["spec"], old["spec"]
    if spec.get("completionMode") != "Indexed" and spec.get("completions") != former.get("completions"):
        yield invalid("spec.completions", spec.get("completions"), _IMMUTABLE)
    if spec.get("selector") != former.get("selector"):
        yield invalid("spec.selector", spec.get("selector"), _IMMUTABLE)
    if spec["template"] != former["template"]:
        yield invalid("spec.template", _template_value(spec["template"]), _IMMUTABLE)
    for key in _FIXED:
        if spec.get(key) != former.get(key):
            yield invalid(f"spec.{key}", spec.get(key), _IMMUTABLE)


def _validate_spec(spec: Json) -> Iterator[Mistake]:
    for key in _COUNTS:
        if spec.get(key, 0) < 0:
            yield invalid(f"spec.{key}", spec[key], NOT_NEGATIVE)
    mode = spec.get("completionMode")
    if mode not in (None, "NonIndexed", "Indexed"):
        yield unsupported("spec.completionMode", mode, ("NonIndexed", "Indexed"))
    if mode == "Indexed" and "completions" not in spec:
        yield required("spec.completions", "when completion mode is Indexed")
    if mode in (None, "NonIndexed"):
        for key in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if key in spec:
                yield invalid(f"spec.{key}", spec[key], "requires indexed completion mode")
    policy = spec.get("podFailurePolicy")
    for index, rule in enumerate((policy or {}).get("rules") or ()):
        yield from _validate_rule(rule, spec, f"spec.podFailurePolicy.rules[{index}]")
    yield from _validate_replacement(spec)
    yield from validate_template(spec["template"], "spec.template")
    yield from _validate_restart(spec)
    selector = spec.get("selector")
    if selector is None:
        yield required("spec.selector")
    else:
        yield from validate_selector(selector, "spec.selector")
    labels = spec["template"]["metadata"].get("labels")
    try:
        is_matching = selects(selector, labels or {})
    except InputError:
        return
    if not is_matching:
        why = "`selector` does not match template `labels`"
        yield invalid("spec.template.metadata.labels", sorted_labels(labels), why)


def _validate_restart(spec: Json) -> Iterator[Mistake]:
    restart, field = spec["template"]["spec"]["restartPolicy"], "spec.template.spec.restartPolicy"
    if restart == "Always":
        yield required(field, 'valid values: "OnFailure", "Never"')
    elif restart not in ("OnFailure", "Never"):
        yield unsupported(field, restart, ("OnFailure", "Never"))
    elif spec.get("podFailurePolicy") is not None and restart != "Never":
        yield invalid(field, restart, 'only "Never" is supported when podFailurePolicy is specified')


def _validate_replacement(spec: Json) -> Iterator[Mistake]:
    policy = spec.get("podReplacementPolicy")
    if policy is None:
        return
    known = ("Failed",) if spec.get("podFailurePolicy") is not None else ("Failed", "TerminatingOrFailed")
    if policy not in known:
        yield unsupported("spec.podReplacementPolicy", policy, known)


def _validate_rule(rule: Json, spec: Json, field: str) -> Iterator[Mistake]:
    action, conditions = rule.get("action", ""), rule.get("onPodConditions") or ()
    if not action:
        yield required(f"{field}.action", 'valid values: ["Count" "FailIndex" "FailJob" "Ignore"]')
    elif action == "FailIndex":
        if "backoffLimitPerIndex" not in spec:
            yield invalid(f"{field}.action", action, "requires the backoffLimitPerIndex to be set")
    elif action not in _ACTIONS:
        yield unsupported(f"{field}.action", action, _ACTIONS)
    for index, pattern in enumerate(conditions):
        where, kind = f"{field}.onPodConditions[{index}]", pattern.get("type") or ""
        yield from (invalid(f"{where}.type", kind, why) for why in label_key_complaints(kind))
        status = pattern.get("status", "")
        if not status:
            yield required(f"{where}.status", 'valid values: ["False" "True" "Unknown"]')
        elif status not in _STATUSES:
            yield unsupported(f"{where}.status", status, _STATUSES)
    has_codes = rule.get("onExitCodes") is not None
    if has_codes and conditions:
        why = "specifying both OnExitCodes and OnPodConditions is not supported"
        yield Mistake(field, "FieldValueInvalid", f"Invalid value: {why}")
    elif not has_codes and not conditions:
        why = "specifying one of OnExitCodes and OnPodConditions is required"
        yield Mistake(field, "FieldValueInvalid", f"Invalid value: {why}")


def _template_value(template: Json) -> Json:
    """As Go has it inside: the fields of the metadata, and the spec beside them."""
    metadata = template["metadata"]
    maps = {key: sorted_labels(metadata[key]) for key in ("labels", "annotations") if metadata.get(key)}
    return {**maps, "Spec": spec_value(template["spec"])}
