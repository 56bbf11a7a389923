"""Pods, and the specs of pods in templates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from jettison.apiserver.validation.containers import validate_containers
from jettison.apiserver.validation.metadata import validate_labels
from jettison.apiserver.validation.mistakes import Mistake, forbidden, invalid, required, unsupported
from jettison.apiserver.validation.names import subdomain_name
from jettison.apiserver.validation.pod_difference import spec_difference
from jettison.apiserver.validation.tolerations import validate_tolerations
from jettison.apiserver.validation.volumes import validate_volumes

Json = dict[str, Any]

_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_UPDATE_RULE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n"
)


def validate_pod(pod: Json) -> Iterator[Mistake]:
    """A new pod."""
    yield from validate_pod_spec(pod["spec"], "spec")


def validate_pod_spec(spec: Json, field: str) -> Iterator[Mistake]:
    """The spec of a pod or of a template."""
    yield from validate_volumes(spec.get("volumes") or (), f"{field}.volumes")
    yield from validate_containers(spec, field)
    if spec["restartPolicy"] not in _RESTART_POLICIES:
        yield unsupported(f"{field}.restartPolicy", spec["restartPolicy"], _RESTART_POLICIES)
    if spec["dnsPolicy"] not in _DNS_POLICIES:
        yield unsupported(f"{field}.dnsPolicy", spec["dnsPolicy"], _DNS_POLICIES)
    yield from validate_labels(spec.get("nodeSelector") or {}, f"{field}.nodeSelector")
    for key, rule in (("nodeName", subdomain_name), ("priorityClassName", subdomain_name)):
        if spec.get(key):
            yield from (invalid(f"{field}.{key}", spec[key], why) for why in rule(spec[key]))
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline < 2**31:
        yield invalid(f"{field}.activeDeadlineSeconds", deadline, "must be between 1 and 2147483647, inclusive")
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0:
        yield invalid(f"{field}.terminationGracePeriodSeconds", grace, "must be greater than or equal to 0")
    yield from _validate_node_affinity(spec, field)
    yield from validate_tolerations(spec.get("tolerations") or [], f"{field}.tolerations")


def _validate_node_affinity(spec: Json, field: str) -> Iterator[Mistake]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    if key not in affinity:
        return
    where = f"{field}.affinity.nodeAffinity.{key}.nodeSelectorTerms"
    terms = affinity[key].get("nodeSelectorTerms")
    if not terms:
        yield required(where, "must have at least one node selector term")
    for index, term in enumerate(terms or ()):
        for part in ("matchExpressions", "matchFields"):
            for number, each in enumerate(term.get(part) or ()):
                yield from _validate_node_requirement(each, f"{where}[{index}].{part}[{number}]")


def _validate_node_requirement(requirement: Json, field: str) -> Iterator[Mistake]:
    operator, values = requirement["operator"], requirement.get("values") or ()
    if operator in ("In", "NotIn"):
        if not values:
            yield required(f"{field}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            yield forbidden(f"{field}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            yield required(f"{field}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
    else:
        yield invalid(f"{field}.operator", operator, "not a valid selector operator")


def validate_pod_update(new: Json, old: Json) -> Iterator[Mistake]:
    """A pod runs as it was made: only a few fields of its spec may change."""
    spec, former = new["spec"], old["spec"]
    for key in ("containers", "initContainers"):
        if len(spec.get(key) or ()) != len(former.get(key) or ()):
            yield forbidden(f"spec.{key}", "pod updates may not add or remove containers")
            return
        for index, container in enumerate(spec.get(key) or ()):
            if not container.get("image"):
                yield required(f"spec.{key}[{index}].image")
    yield from _validate_deadline(spec, former)
    if not _keeps_tolerations(spec, former):
        yield forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")
    yield from validate_tolerations(spec.get("tolerations") or [], "spec.tolerations")
    for gate in _gates(spec):
        if gate not in _gates(former):
            yield forbidden("spec.schedulingGates", f"only deletion is allowed, but found new scheduling gate '{gate}'")
    restored = _restored(spec, former)
    if restored != former:
        yield forbidden("spec", _UPDATE_RULE + spec_difference(former, restored))


def validate_pod_status(new: Json, old: Json) -> Iterator[Mistake]:
    """Who binds a pod does it through `binding`: a status may not move it."""
    nominated = new["status"].get("nominatedNodeName")
    if nominated:
        yield from (invalid("status.nominatedNodeName", nominated, why) for why in subdomain_name(nominated))
    if new["spec"].get("nodeName") != old["spec"].get("nodeName"):
        yield forbidden("status.nodeName", "may not be changed directly")


def _validate_deadline(spec: Json, former: Json) -> Iterator[Mistake]:
    deadline, before = spec.get("activeDeadlineSeconds"), former.get("activeDeadlineSeconds")
    field = "spec.activeDeadlineSeconds"
    if deadline is None:
        if before is not None:
            yield invalid(field, None, "must not update from a positive integer to nil value")
    elif not 0 <= deadline < 2**31:
        yield invalid(field, deadline, "must be between 0 and 2147483647, inclusive")
    elif before is not None and deadline > before:
        yield invalid(field, deadline, "must be less than or equal to previous value")


def _gates(spec: Json) -> list[str]:
    return [each.get("name") or "" for each in spec.get("schedulingGates") or ()]


def _keeps_tolerations(spec: Json, former: Json) -> bool:
    def without_seconds(tolerations: Any) -> list[Json]:
        return [{k: v for k, v in each.items() if k != "tolerationSeconds"} for each in tolerations or ()]

    kept = without_seconds(spec.get("tolerations"))
    return all(each in kept for each in without_seconds(former.get("tolerations")))


def _restored(spec: Json, former: Json) -> Json:
    """The new spec with everything that may change set back to what it was."""
    restored = dict(spec)
    for key in ("containers", "initContainers"):
        if key in spec:
            pairs = zip(spec[key], former[key], strict=True)
            restored[key] = [{**each, "image": before.get("image")} for each, before in pairs]
    for key in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        _take(restored, former, key)
    if former.get("terminationGracePeriodSeconds", 0) < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        _take(restored, former, "terminationGracePeriodSeconds")
    return restored


def _take(target: Json, source: Json, key: str) -> None:
    if key in source:
        target[key] = source[key]
    else:
        target.pop(key, None)
