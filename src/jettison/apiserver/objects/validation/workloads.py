"""Deployments, ReplicaSets, ReplicationControllers, StatefulSets and DaemonSets: a selector, a template, and how many.

Each kind has its own order of looking at the same things, and its own words for some of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, Final

from jettison.apiserver.objects.schema import empties_of
from jettison.apiserver.objects.validation.go_values import go_value
from jettison.apiserver.objects.validation.metadata import (
    label_name,
    validate_annotations,
    validate_known_metadata_update,
    validate_labels,
    validate_selector,
)
from jettison.apiserver.objects.validation.mistakes import Mistake, forbidden, invalid, required, unsupported
from jettison.apiserver.objects.validation.pod.old_annotations import validate_agreement, validate_pod_annotations
from jettison.apiserver.objects.validation.pod.pod_specs import validate_pod_spec
from jettison.apiserver.objects.validation.pod.volume_sources import validate_claim_spec
from jettison.apiserver.objects.validation.resources import NOT_NEGATIVE, is_nothing, validate_amount, validate_share
from jettison.engine.labels.selectors import MatchExpression, SelectorObject, select
from jettison.errors import InputError

Json = dict[str, Any]

_IMMUTABLE: Final = "field is immutable"
_STATEFUL_SET_FIELDS: Final = (
    "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
)  # fmt: skip
_STATEFUL_SET_RULE: Final = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


def validate_deployment(deployment: Json) -> Iterator[Mistake]:
    """A new one."""
    spec = deployment["spec"]
    yield from _not_negative(spec, "replicas")
    yield from _validate_pods(spec, "deployment", "invalid label selector", empties_of(deployment))
    yield from validate_strategy(spec["strategy"])
    yield from _not_negative(spec, "minReadySeconds", "revisionHistoryLimit")
    yield from validate_deadline(spec)


def validate_deployment_update(new: Json, old: Json) -> Iterator[Mistake]:
    """The selector is immutable: pods of the old one would be left behind."""
    yield from validate_deployment(new)
    yield from _same_selector(new, old)


def validate_replica_set(replica_set: Json) -> Iterator[Mistake]:
    """A new one. Upstream calls an empty selector wrong `for deployment` here, too."""
    spec = replica_set["spec"]
    yield from _not_negative(spec, "replicas", "minReadySeconds")
    yield from _validate_pods(spec, "deployment", "invalid label selector", empties_of(replica_set))


def validate_replica_set_update(new: Json, old: Json) -> Iterator[Mistake]:
    """As a Deployment."""
    yield from validate_replica_set(new)
    yield from _same_selector(new, old)


def validate_replication_controller(controller: Json) -> Iterator[Mistake]:
    """A new one. Its selector is a set of labels, and its template may be missing, which is a mistake."""
    spec = controller["spec"]
    selector, template = spec.get("selector") or {}, spec.get("template")
    yield from _not_negative(spec, "minReadySeconds")
    if not selector:
        yield required("spec.selector")
    yield from _not_negative(spec, "replicas")
    if template is None:
        yield required("spec.template")
        return
    labels = template["metadata"].get("labels")
    if not selector.items() <= (labels or {}).items():
        yield _mismatch(labels)
    yield from validate_template(template, empties_of(controller))
    yield from _runs_for_ever(template, "ReplicationController")


def validate_replication_controller_update(new: Json, old: Json) -> Iterator[Mistake]:
    """The selector may change: pods that it no longer selects are released."""
    del old
    return validate_replication_controller(new)


def validate_stateful_set(stateful_set: Json) -> Iterator[Mistake]:
    """A new one; its pods are called after the service."""
    yield from _validate_stateful_spec(stateful_set, is_new=True)


def validate_stateful_set_update(new: Json, old: Json) -> Iterator[Mistake]:
    """The name of the service and the volume claims cannot change: pods are named after them and keep them."""
    yield from validate_known_metadata_update(new["metadata"], old["metadata"])
    yield from _validate_stateful_spec(new, is_new=False)
    fixed = [{k: v for k, v in each["spec"].items() if k not in _STATEFUL_SET_FIELDS} for each in (new, old)]
    if fixed[0] != fixed[1]:
        yield forbidden("spec", _STATEFUL_SET_RULE)


def validate_stateful_set_status(new: Json, old: Json) -> Iterator[Mistake]:
    """Surprise: here the metadata come after the counts."""
    yield from _validate_replicas_status(new["status"], "StatefulSet")
    yield from validate_known_metadata_update(new["metadata"], old["metadata"])
    yield from _not_decremented(new["status"], old["status"])


def validate_daemon_set(daemon_set: Json) -> Iterator[Mistake]:
    """A new one."""
    spec = daemon_set["spec"]
    selector, labels = spec.get("selector"), spec["template"]["metadata"].get("labels")
    yield from validate_selector(selector or {}, "spec.selector")
    try:
        is_matching = selects(selector, labels or {})
    except InputError:
        is_matching = True
    if not is_matching:
        yield _mismatch(labels)
    if selector is not None and _is_empty(selector):
        yield _unfit_selector(selector, "empty selector is invalid for daemonset")
    yield from validate_template(spec["template"], empties_of(daemon_set))
    yield from _runs_for_ever(spec["template"], "DaemonSet")
    yield from _not_negative(spec, "minReadySeconds")
    yield from _validate_daemon_strategy(spec["updateStrategy"])
    yield from _not_negative(spec, "revisionHistoryLimit")


def validate_daemon_set_update(new: Json, old: Json) -> Iterator[Mistake]:
    """As a Deployment."""
    yield from _same_selector(new, old)
    yield from validate_daemon_set(new)


def replicas_status_check(kind: str) -> Callable[[Json, Json], Iterator[Mistake]]:
    """For what keeps a number of pods: there cannot be more good ones than there are."""

    def validate_status(new: Json, old: Json) -> Iterator[Mistake]:
        yield from _validate_replicas_status(new["status"], kind)
        if kind == "Deployment":
            yield from _not_decremented(new["status"], old["status"])

    return validate_status


def _validate_replicas_status(status: Json, kind: str) -> Iterator[Mistake]:
    counts = _COUNTS[kind]
    yield from _not_negative(status, *counts, field="status")
    total = status.get("replicas", 0)
    for key in _PARTS[kind]:
        if status.get(key, 0) > total:
            yield invalid(f"status.{key}", status.get(key, 0), "cannot be greater than status.replicas")
    available = status.get("availableReplicas", 0)
    if available > status.get("readyReplicas", 0):
        ready = "status.readyReplicas" if kind == "StatefulSet" else "readyReplicas"
        yield invalid("status.availableReplicas", available, f"cannot be greater than {ready}")


def validate_daemon_set_status(new: Json, old: Json) -> Iterator[Mistake]:
    """Its counts."""
    counts = (
        "currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady", "observedGeneration",
        "updatedNumberScheduled", "numberAvailable", "numberUnavailable", "collisionCount",
    )  # fmt: skip
    yield from _not_negative(new["status"], *counts, field="status")
    yield from _not_decremented(new["status"], old["status"])


def _not_decremented(status: Json, former: Json) -> Iterator[Mistake]:
    """Names of pods are made from it, so that it must not come back; to leave it out is to decrement it."""
    before, now = former.get("collisionCount"), status.get("collisionCount")
    if before is not None and (now is None or now < before):
        yield invalid("status.collisionCount", now or 0, "cannot be decremented")


_COUNTS: Final = {
    "Deployment": (
        "observedGeneration", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas",
        "unavailableReplicas", "terminatingReplicas", "collisionCount",
    ),
    "ReplicaSet": (
        "replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration",
        "terminatingReplicas",
    ),
    "ReplicationController": (
        "replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration",
    ),
    "StatefulSet": (
        "replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas", "observedGeneration",
        "collisionCount",
    ),
}  # fmt: skip
_PARTS: Final = {
    "Deployment": ("updatedReplicas", "readyReplicas", "availableReplicas"),
    "ReplicaSet": ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
    "ReplicationController": ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
    "StatefulSet": ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"),
}


def _validate_stateful_spec(value: Json, *, is_new: bool) -> Iterator[Mistake]:
    spec = value["spec"]
    policy = spec["podManagementPolicy"]
    if not policy:
        yield required("spec.podManagementPolicy")
    elif policy not in ("OrderedReady", "Parallel"):
        yield invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'")
    yield from _validate_stateful_strategy(spec["updateStrategy"])
    retention = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    for key in ("whenDeleted", "whenScaled"):
        if retention and retention.get(key, "") not in ("Retain", "Delete"):
            field = f"spec.persistentVolumeClaimRetentionPolicy.{key}"
            yield unsupported(field, retention.get(key, ""), ("Retain", "Delete"))
    for index, claim in enumerate((spec.get("volumeClaimTemplates") or ()) if is_new else ()):
        yield from validate_claim_spec(claim["spec"], f"spec.volumeClaimTemplates[{index}].spec")
    yield from _not_negative(spec, "replicas", "minReadySeconds")
    start = (spec.get("ordinals") or {}).get("start", 0)
    if start < 0:
        yield invalid("spec.ordinals.start", start, NOT_NEGATIVE)
    if is_new and spec.get("serviceName"):
        yield from (invalid("spec.serviceName", spec["serviceName"], why) for why in label_name(spec["serviceName"]))
    spec = {**spec, "template": _named_template(spec)}
    yield from _validate_pods(spec, "statefulset", "", empties_of(value), owner="StatefulSet")


def _named_template(spec: Json) -> Json:
    """The template with the volumes of the claims; names that the controller replaces do not count."""
    pod = {key: value for key, value in spec["template"]["spec"].items() if key not in ("subdomain", "hostname")}
    names = dict.fromkeys(
        (claim.get("metadata") or {}).get("name", "") for claim in spec.get("volumeClaimTemplates") or ()
    )
    if names:
        claimed = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
        pod["volumes"] = [*claimed, *(each for each in pod.get("volumes") or () if each["name"] not in names)]
    return {**spec["template"], "spec": pod}


def _validate_stateful_strategy(strategy: Json) -> Iterator[Mistake]:
    field, limits = "spec.updateStrategy", strategy.get("rollingUpdate")
    if not strategy.get("type"):
        yield required(field)
    elif strategy["type"] == "OnDelete":
        if limits is not None:
            shown = {"Partition": limits.get("partition", 0), "MaxUnavailable": limits.get("maxUnavailable")}
            yield invalid(f"{field}.rollingUpdate", shown, "only allowed for updateStrategy 'RollingUpdate'")
    elif strategy["type"] != "RollingUpdate":
        shown = {"Type": strategy["type"], "RollingUpdate": None}
        if limits is not None:
            shown["RollingUpdate"] = {
                "Partition": limits.get("partition", 0),
                "MaxUnavailable": limits.get("maxUnavailable"),
            }
        yield invalid(field, shown, "must be 'RollingUpdate' or 'OnDelete'")
    elif limits is not None:
        if limits.get("partition", 0) < 0:
            yield invalid(f"{field}.rollingUpdate.partition", limits["partition"], NOT_NEGATIVE)
        if (most := limits.get("maxUnavailable")) is not None:
            yield from validate_amount(most, f"{field}.rollingUpdate.maxUnavailable")
            if is_nothing(most):
                yield invalid(f"{field}.rollingUpdate.maxUnavailable", most, "cannot be 0")
            yield from validate_share(most, f"{field}.rollingUpdate.maxUnavailable")


def _validate_daemon_strategy(strategy: Json) -> Iterator[Mistake]:
    field, limits = "spec.updateStrategy", strategy.get("rollingUpdate")
    kinds = ("RollingUpdate", "OnDelete")
    if strategy.get("type") not in kinds:
        shown = {"Type": strategy.get("type", ""), "RollingUpdate": None}
        if limits is not None:
            shown["RollingUpdate"] = {
                "MaxUnavailable": limits.get("maxUnavailable", 0),
                "MaxSurge": limits.get("maxSurge", 0),
            }
        yield unsupported(field, shown, kinds)
    elif strategy["type"] == "RollingUpdate":
        if limits is None:
            yield required(f"{field}.rollingUpdate")
            return
        unavailable, surge = limits.get("maxUnavailable", 0), limits.get("maxSurge", 0)
        for check in (validate_amount, validate_share):
            yield from check(unavailable, f"{field}.rollingUpdate.maxUnavailable")
            yield from check(surge, f"{field}.rollingUpdate.maxSurge")
        if not is_nothing(unavailable) and not is_nothing(surge):
            why = "may not be set when maxUnavailable is non-zero"
            yield invalid(f"{field}.rollingUpdate.maxSurge", surge, why)
        elif is_nothing(unavailable) and is_nothing(surge):
            yield required(f"{field}.rollingUpdate.maxUnavailable", "cannot be 0 when maxSurge is 0")


def _validate_pods(
    spec: Json, kind: str, unreadable: str, empties: Collection[str], owner: str = "ReplicaSet"
) -> Iterator[Mistake]:
    """The selector, and the template that it must select."""
    selector, labels = spec.get("selector"), spec["template"]["metadata"].get("labels")
    if selector is None:
        yield required("spec.selector")
    else:
        yield from validate_selector(selector, "spec.selector")
        if _is_empty(selector):
            yield _unfit_selector(selector, f"empty selector is invalid for {kind}")
    try:
        is_matching = selects(selector, labels or {})
    except InputError:
        yield _unfit_selector(selector, unreadable)
        if owner == "StatefulSet":
            yield from _runs_for_ever(spec["template"], owner)
        return
    if not is_matching:
        yield _mismatch(labels)
    yield from validate_template(spec["template"], empties, times=2 if owner == "StatefulSet" else 1)
    yield from _runs_for_ever(spec["template"], owner)


def _runs_for_ever(template: Json, owner: str) -> Iterator[Mistake]:
    policy = template["spec"]["restartPolicy"]
    if policy != "Always":
        yield unsupported("spec.template.spec.restartPolicy", policy, ("Always",))
    if template["spec"].get("activeDeadlineSeconds") is not None:
        why = f"activeDeadlineSeconds in {owner} is not Supported"
        yield forbidden("spec.template.spec.activeDeadlineSeconds", why)


def _same_selector(new: Json, old: Json) -> Iterator[Mistake]:
    if new["spec"].get("selector") != old["spec"].get("selector"):
        yield _unfit_selector(new["spec"].get("selector"), _IMMUTABLE)


def _unfit_selector(selector: Json | None, why: str) -> Mistake:
    return invalid("spec.selector", go_value("LabelSelector", selector), why)


def _mismatch(labels: dict[str, str] | None) -> Mistake:
    why = "`selector` does not match template `labels`"
    return invalid("spec.template.metadata.labels", None if labels is None else sorted_labels(labels), why)


def _is_empty(selector: Json) -> bool:
    return not selector.get("matchLabels") and not selector.get("matchExpressions")


def _not_negative(values: Json, *keys: str, field: str = "spec") -> Iterator[Mistake]:
    for key in keys:
        if values.get(key, 0) < 0:
            yield invalid(f"{field}.{key}", values[key], NOT_NEGATIVE)


# How a Deployment is rolled out.
_RECREATE: Final = "Recreate"
_ROLLING: Final = "RollingUpdate"
_LIMITS: Final = "spec.strategy.rollingUpdate"


def validate_strategy(strategy: Json) -> Iterator[Mistake]:
    """The strategy with its limits."""
    limits: Any = strategy.get("rollingUpdate")
    if strategy["type"] == _ROLLING:
        yield from _validate_limits(limits)
    elif strategy["type"] != _RECREATE:
        shown = {"Type": strategy["type"], "RollingUpdate": None}
        if limits is not None:
            shown["RollingUpdate"] = {
                "MaxUnavailable": limits.get("maxUnavailable", 0),
                "MaxSurge": limits.get("maxSurge", 0),
            }
        yield unsupported("spec.strategy", shown, (_RECREATE, _ROLLING))
    elif limits is not None:
        yield forbidden(_LIMITS, f"may not be specified when strategy `type` is '{_RECREATE}'")


def validate_deadline(spec: Json) -> Iterator[Mistake]:
    """One that can be met."""
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is None:
        return
    if deadline < 0:
        yield invalid("spec.progressDeadlineSeconds", deadline, NOT_NEGATIVE)
    if deadline <= spec.get("minReadySeconds", 0):
        yield invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")


def _validate_limits(limits: Json) -> Iterator[Mistake]:
    """Not both 0: no pod could ever be replaced."""
    unavailable, surge = limits["maxUnavailable"], limits["maxSurge"]
    yield from validate_amount(unavailable, f"{_LIMITS}.maxUnavailable")
    yield from validate_amount(surge, f"{_LIMITS}.maxSurge")
    if is_nothing(unavailable) and is_nothing(surge):
        yield invalid(f"{_LIMITS}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0")
    yield from validate_share(unavailable, f"{_LIMITS}.maxUnavailable")


# Templates for pods, and whether a selector takes what is made from them.
def validate_template(template: Json, empties: Collection[str], times: int = 1) -> Iterator[Mistake]:
    """Kubernetes says `template.labels`, though they are in its metadata; of a StatefulSet it says so twice.

    `empties` are the lists and maps that the document of the whole object had empty, by their paths.
    """
    field = "spec.template"
    labels, annotations = template["metadata"].get("labels") or {}, template["metadata"].get("annotations") or {}
    for number in range(times):
        yield from validate_labels(labels, f"{field}.labels")
        yield from validate_annotations(annotations, f"{field}.annotations")
        yield from validate_pod_annotations(annotations, template["spec"], f"{field}.annotations")
        if number == 0:
            yield from validate_pod_spec(template["spec"], f"{field}.spec", empties=empties)
            yield from validate_agreement(annotations, template["spec"], f"{field}.spec")
            if template["spec"].get("ephemeralContainers"):
                yield forbidden(f"{field}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template")


def selects(selector: Json | None, labels: dict[str, str]) -> bool:
    """Whether a selector takes these labels; none takes nothing. InputError for one that makes no sense."""
    if selector is None:
        return False
    expressions = (
        MatchExpression(each["key"], each["operator"], tuple(each.get("values") or ()))
        for each in selector.get("matchExpressions") or ()
    )
    return select(SelectorObject(selector.get("matchLabels") or {}, tuple(expressions))).matches(labels)


def sorted_labels(labels: dict[str, str] | None) -> dict[str, str] | None:
    """As a complaint shows them."""
    return None if labels is None else dict(sorted(labels.items()))
