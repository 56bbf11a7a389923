"""Jobs: pods that are to end, and what becomes of those that do not end well."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

from jettison.apiserver.objects.schema import empties_of, with_empties
from jettison.apiserver.objects.validation.go_values import go_value, spec_value
from jettison.apiserver.objects.validation.job_statuses import count_indexes, is_condition_true
from jettison.apiserver.objects.validation.metadata import (
    label_name,
    subdomain_name,
    validate_known_metadata,
    validate_known_metadata_update,
    validate_selector,
)
from jettison.apiserver.objects.validation.mistakes import (
    Mistake,
    duplicate,
    invalid,
    required,
    too_long,
    too_many,
    unsupported,
)
from jettison.apiserver.objects.validation.resources import NOT_NEGATIVE
from jettison.apiserver.objects.validation.workloads import selects, sorted_labels, validate_template
from jettison.engine.labels.syntax import label_key_complaints
from jettison.errors import InputError

Json = dict[str, Any]

_COUNTS: Final = (
    "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished",
    "backoffLimitPerIndex", "maxFailedIndexes",
)  # fmt: skip
# The labels that the API server gives to the pods, and what of the job they hold.
_OLD_LABELS: Final = (("controller-uid", "uid"), ("job-name", "name"))
_NEW_LABELS: Final = tuple((f"batch.kubernetes.io/{label}", key) for label, key in _OLD_LABELS)
_PLACES: Final = ("nodeSelector", "tolerations", "schedulingGates")
_STRUCTS: Final = {"podFailurePolicy": "PodFailurePolicy", "successPolicy": "SuccessPolicy"}
_PATH: Final = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_LONGEST_MANAGER: Final = 63
_LONGEST_INDEXES: Final = 65_536
_MOST_INDEXES: Final = 100_000
_MOST_FAILED: Final = 10_000
_MOST_RULES: Final = 20
_MOST_CODES: Final = 255
_OPERATORS: Final = ("In", "NotIn")
_INDEXED_ONLY: Final = "requires indexed completion mode"
_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
_STATUSES: Final = ("False", "True", "Unknown")
_FIXED: Final = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
_IMMUTABLE: Final = "field is immutable"


def validate_job(job: Json) -> Iterator[Mistake]:
    """A new one. The pods of an indexed job have the job's name and their index as host names."""
    spec, name = job["spec"], job["metadata"].get("name", "")
    yield from _validate_made_labels(job, (*_OLD_LABELS, *_NEW_LABELS))
    yield from _validate_spec(job)
    if spec.get("completionMode") == "Indexed" and spec.get("completions", 0) > 0:
        longest = f"{name}-{spec['completions'] - 1}"
        if list(label_name(longest)):
            yield invalid("metadata.name", name, f"will not able to create pod with invalid DNS label: {longest}")


def validate_job_update(new: Json, old: Json) -> Iterator[Mistake]:
    """Neither selector nor template may change. Kubernetes looks at the rest twice."""
    yield from validate_known_metadata(new["metadata"], subdomain_name)
    yield from validate_job(new)
    yield from validate_known_metadata_update(new["metadata"], old["metadata"])
    yield from _validate_spec(new)
    spec, former = new["spec"], old["spec"]
    yield from _validate_completions(spec, former)
    if spec.get("selector") != former.get("selector"):
        yield invalid("spec.selector", go_value("LabelSelector", spec.get("selector")), _IMMUTABLE)
    yield from _validate_template_change(new, old)
    for key in _FIXED:
        if spec.get(key) != former.get(key):
            value = _shown_spec(new).get(key)
            yield invalid(f"spec.{key}", go_value(_STRUCTS[key], value) if key in _STRUCTS else value, _IMMUTABLE)


def _validate_completions(spec: Json, former: Json) -> Iterator[Mistake]:
    after, before = spec.get("completions"), former.get("completions")
    if after == before:
        return
    if spec.get("completionMode") != "Indexed":
        yield invalid("spec.completions", after, _IMMUTABLE)
    elif after is not None and after != spec["parallelism"]:
        # Kubernetes names the path from its root.
        yield invalid("spec.completions", after, "can only be modified in tandem with spec.parallelism")


def _shown_spec(job: Json) -> Json:
    """A complaint shows also lists and maps that are there and empty."""
    spec: Json = with_empties(job, empties_of(job))["spec"]
    return spec


def _validate_template_change(new: Json, old: Json) -> Iterator[Mistake]:
    """A suspended job of which no pod runs may get other places and other resources for its pods."""
    template, former, status = new["spec"]["template"], old["spec"], old.get("status") or {}
    is_suspended = former.get("suspend", False) and not status.get("active")
    if is_suspended and ("startTime" not in status or is_condition_true(status, "Suspended")):
        spec = template["spec"]
        if spec != _changed_places(former["template"]["spec"], spec):
            yield invalid("spec.template.spec", spec_value(_shown_spec(new)["template"]["spec"]), _IMMUTABLE)
    elif template != former["template"]:
        yield invalid("spec.template", _template_value(_shown_spec(new)["template"]), _IMMUTABLE)


def _changed_places(former: Json, spec: Json) -> Json:
    """The former spec with what may be changed."""
    changed: Json = {**former, **{key: spec[key] for key in _PLACES if key in spec}}
    for key in _PLACES:
        if key not in spec:
            changed.pop(key, None)
    before, after = former.get("affinity"), spec.get("affinity")
    if before is not None or after is not None:
        kept: Json = {key: value for key, value in (before or {}).items() if key != "nodeAffinity"}
        kept |= {key: value for key, value in (after or {}).items() if key == "nodeAffinity"}
        changed["affinity"] = kept
        if after is None and not kept:
            del changed["affinity"]
    for key in ("containers", "initContainers"):
        listed, new = former.get(key) or [], spec.get(key) or []
        if listed and len(listed) == len(new):
            pairs = zip(listed, new, strict=True)
            changed[key] = [
                {**one, "resources": other.get("resources", {})} if one["name"] == other["name"] else one
                for one, other in pairs
            ]
    return changed


def _validate_made_labels(job: Json, labels: tuple[tuple[str, str], ...]) -> Iterator[Mistake]:
    """A selector that was made, not written, and the labels that it selects."""
    spec, metadata = job["spec"], job["metadata"]
    selector = spec.get("selector")
    if spec.get("manualSelector") or selector is None:
        return
    found = spec["template"]["metadata"].get("labels") or {}
    expected = {label: str(metadata.get(key, "")) for label, key in labels}
    for label, value in expected.items():
        where = f"spec.template.metadata.labels[{label}]"
        if label not in found:
            yield required(where, f"must be '{value}'")
        elif found[label] != value:
            yield invalid(where, sorted_labels(found), f"must be '{value}'")
    try:
        is_matching = selects(selector, expected)
    except InputError:
        return
    if not is_matching:
        yield invalid("spec.selector", go_value("LabelSelector", selector), "`selector` not auto-generated")


def _validate_spec(job: Json) -> Iterator[Mistake]:
    spec = job["spec"]
    for key in _COUNTS:
        if spec.get(key, 0) < 0:
            yield invalid(f"spec.{key}", spec[key], NOT_NEGATIVE)
    if "maxFailedIndexes" in spec and "backoffLimitPerIndex" not in spec:
        yield required("spec.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    if "managedBy" in spec:
        yield from _validate_manager(spec["managedBy"])
    mode = spec.get("completionMode")
    if mode not in (None, "NonIndexed", "Indexed"):
        yield unsupported("spec.completionMode", mode, ("NonIndexed", "Indexed"))
    if mode == "Indexed":
        yield from _validate_indexed(spec)
    if mode in (None, "NonIndexed"):
        for key in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if key in spec:
                yield invalid(f"spec.{key}", spec[key], _INDEXED_ONLY)
    if spec.get("podFailurePolicy") is not None:
        yield from _validate_failures(spec)
    if (policy := spec.get("successPolicy")) is not None:
        if mode == "Indexed":
            yield from _validate_successes(policy, spec.get("completions", 0))
        else:
            yield invalid("spec.successPolicy", go_value("SuccessPolicy", policy), _INDEXED_ONLY)
    yield from _validate_replacement(spec)
    yield from validate_template(spec["template"], empties_of(job))
    yield from _validate_restart(spec)
    yield from _validate_selection(spec)


def _validate_selection(spec: Json) -> Iterator[Mistake]:
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


def _validate_manager(name: str) -> Iterator[Mistake]:
    host, slash, path = name.partition("/")
    if not name:
        yield required("spec.managedBy")
    elif not (host and slash and path):
        yield invalid("spec.managedBy", name, 'must be a domain-prefixed path (such as "acme.io/foo")')
    else:
        yield from (invalid("spec.managedBy", host, why) for why in subdomain_name(host))
        if not re.fullmatch(_PATH, path):
            yield invalid("spec.managedBy", path, f"Invalid path (regex used for validation is '{_PATH}')")
    if len(name.encode()) > _LONGEST_MANAGER:
        yield too_long("spec.managedBy", _LONGEST_MANAGER)


def _validate_indexed(spec: Json) -> Iterator[Mistake]:
    """The indexes that have ended, and those that failed, must fit into a status."""
    if "completions" not in spec:
        yield required("spec.completions", "when completion mode is Indexed")
    completions, parallelism, failed = spec.get("completions"), spec.get("parallelism", 0), spec.get("maxFailedIndexes")
    if parallelism > _MOST_INDEXES:
        why = f"must be less than or equal to {_MOST_INDEXES} when completion mode is Indexed"
        yield invalid("spec.parallelism", parallelism, why)
    if completions is not None and failed is not None and failed > completions:
        yield invalid("spec.maxFailedIndexes", failed, "must be less than or equal to completions")
    if failed is not None and failed > _MOST_INDEXES:
        yield invalid("spec.maxFailedIndexes", failed, f"must be less than or equal to {_MOST_INDEXES}")
    if (completions or 0) <= _MOST_INDEXES or "backoffLimitPerIndex" not in spec:
        return
    why = f"must be less than or equal to {_MOST_FAILED} when completions are above {_MOST_INDEXES} and used with"
    if failed is None:
        yield required("spec.maxFailedIndexes", f"must be specified when completions is above {_MOST_INDEXES}")
    if parallelism > _MOST_FAILED:
        yield invalid("spec.parallelism", parallelism, f"{why} backoff limit per index")
    if failed is not None and failed > _MOST_FAILED:
        yield invalid("spec.maxFailedIndexes", failed, f"{why} backoff limit per index")


def _validate_failures(spec: Json) -> Iterator[Mistake]:
    rules, field = spec["podFailurePolicy"].get("rules") or [], "spec.podFailurePolicy.rules"
    if len(rules) > _MOST_RULES:
        yield too_many(field, len(rules), _MOST_RULES)
    for index, rule in enumerate(rules):
        yield from _validate_rule(rule, spec, f"{field}[{index}]")


def _validate_successes(policy: Json, completions: int) -> Iterator[Mistake]:
    rules, field = policy.get("rules") or [], "spec.successPolicy.rules"
    if not rules:
        yield required(field, "at least one rules must be specified when the successPolicy is specified")
    if len(rules) > _MOST_RULES:
        yield too_many(field, len(rules), _MOST_RULES)
    for index, rule in enumerate(rules):
        yield from _validate_success(rule, completions, f"{field}[{index}]")


def _validate_success(rule: Json, completions: int, field: str) -> Iterator[Mistake]:
    count, indexes, total = rule.get("succeededCount"), rule.get("succeededIndexes"), 0
    if count is None and indexes is None:
        yield required(field, "at least one of succeededCount or succeededIndexes must be specified")
    if indexes is not None:
        if len(indexes.encode()) > _LONGEST_INDEXES:
            yield too_long(f"{field}.succeededIndexes", _LONGEST_INDEXES)
        try:
            total = count_indexes(indexes, completions)
        except InputError as error:
            yield invalid(f"{field}.succeededIndexes", indexes, f"error parsing succeededIndexes: {error}")
    if count is None:
        return
    most = "must be less than or equal to"
    if count < 0:
        yield invalid(f"{field}.succeededCount", count, NOT_NEGATIVE)
    if count > completions:
        why = f"{most} {completions} (the number of specified completions)"
        yield invalid(f"{field}.succeededCount", count, why)
    if indexes is not None and count > total:
        why = f"{most} {total} (the number of indexes in the specified succeededIndexes field)"
        yield invalid(f"{field}.succeededCount", count, why)


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
    codes = rule.get("onExitCodes")
    if codes is not None:
        yield from _validate_codes(codes, spec["template"]["spec"], f"{field}.onExitCodes")
    if len(conditions) > _MOST_RULES:
        yield too_many(f"{field}.onPodConditions", len(conditions), _MOST_RULES)
    for index, pattern in enumerate(conditions):
        where, kind = f"{field}.onPodConditions[{index}]", pattern.get("type") or ""
        yield from (invalid(f"{where}.type", kind, why) for why in label_key_complaints(kind))
        status = pattern.get("status", "")
        if not status:
            yield required(f"{where}.status", 'valid values: ["False" "True" "Unknown"]')
        elif status not in _STATUSES:
            yield unsupported(f"{where}.status", status, _STATUSES)
    if codes is not None and conditions:
        why = "specifying both OnExitCodes and OnPodConditions is not supported"
        yield Mistake(field, "FieldValueInvalid", f"Invalid value: {why}")
    elif codes is None and not conditions:
        why = "specifying one of OnExitCodes and OnPodConditions is required"
        yield Mistake(field, "FieldValueInvalid", f"Invalid value: {why}")


def _validate_codes(codes: Json, pod: Json, field: str) -> Iterator[Mistake]:
    operator, values = codes.get("operator", ""), codes.get("values") or []
    if not operator:
        yield required(f"{field}.operator", 'valid values: ["In" "NotIn"]')
    elif operator not in _OPERATORS:
        yield unsupported(f"{field}.operator", operator, _OPERATORS)
    names = {each["name"] for each in (*(pod.get("containers") or ()), *(pod.get("initContainers") or ()))}
    if "containerName" in codes and codes["containerName"] not in names:
        why = "must be one of the container or initContainer names in the pod template"
        yield invalid(f"{field}.containerName", codes["containerName"], why)
    if not values:
        yield invalid(f"{field}.values", codes.get("values"), "at least one value is required")
    elif len(values) > _MOST_CODES:
        yield too_many(f"{field}.values", len(values), _MOST_CODES)
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            yield invalid(f"{field}.values[{index}]", value, "must not be 0 for the In operator")
        if value in values[:index]:
            yield duplicate(f"{field}.values[{index}]", value)
    if any(before > after for before, after in pairwise(values)):
        yield invalid(f"{field}.values", values, "must be ordered")


def _template_value(template: Json) -> Json:
    """As Go has it inside: the fields of the metadata, and the spec beside them."""
    return {**go_value("ObjectMeta", template["metadata"]), "Spec": spec_value(template["spec"])}
