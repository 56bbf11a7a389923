"""Pods: new ones, changed ones, what is added for debugging, and their resources while they run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from jettison.apiserver.objects.schema import empties_of
from jettison.apiserver.objects.validation.mistakes import Mistake, forbidden, invalid, required
from jettison.apiserver.objects.validation.pod.containers import validate_blanks
from jettison.apiserver.objects.validation.pod.old_annotations import (
    APP_ARMOR,
    MIRROR,
    validate_agreement,
    validate_pod_annotations,
)
from jettison.apiserver.objects.validation.pod.placement import gates_of, validate_tolerations
from jettison.apiserver.objects.validation.pod.pod_specs import validate_pod_spec
from jettison.apiserver.objects.validation.pod.pod_updates import (
    ephemeral_difference,
    restored_affinity,
    spec_difference,
    validate_narrowing,
)
from jettison.engine.numbers.strconv import quote
from jettison.manifests.pods import pod_from

Json = dict[str, Any]

_UPDATE_RULE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n"
)


def validate_pod(pod: Json) -> Iterator[Mistake]:
    """A new pod."""
    yield from _validate_annotations(pod)
    yield from _validate_spec(pod)
    if pod["spec"].get("ephemeralContainers"):
        yield forbidden("spec.ephemeralContainers", "cannot be set on create")
    if pod["spec"].get("nodeName") and pod["spec"].get("schedulingGates"):
        yield forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")
    yield from validate_agreement(pod["metadata"].get("annotations") or {}, pod["spec"], "spec")


def _validate_spec(pod: Json) -> Iterator[Mistake]:
    spec = pod["spec"]
    yield from validate_pod_spec(spec, "spec", pod["metadata"].get("name", ""), is_pod=True, empties=empties_of(pod))
    if not spec.get("serviceAccountName"):
        for index, volume in enumerate(spec.get("volumes") or ()):
            for number, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
                if "serviceAccountToken" in source:
                    where = f"spec.volumes[{index}].projected.sources[{number}].serviceAccountToken"
                    yield forbidden(where, "must not be specified when serviceAccountName is not set")
    for key in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(key) or ()):
            yield from validate_blanks(container, f"spec.{key}[{index}]")


def _validate_annotations(pod: Json) -> Iterator[Mistake]:
    annotations = pod["metadata"].get("annotations")
    if annotations:
        yield from validate_pod_annotations(annotations, pod["spec"], "metadata.annotations")


def validate_annotations_update(new: Json, old: Json) -> Iterator[Mistake]:
    """Those of a mirror and of AppArmor may be neither added nor removed nor changed."""
    given, former = (each["metadata"].get("annotations") or {} for each in (new, old))
    for key in (*former, *(each for each in given if each not in former)):
        if given.get(key) == former.get(key):
            continue
        word = "remove or update" if key in former else "add"
        if key.startswith(APP_ARMOR):
            yield forbidden(f"metadata.annotations[{key}]", f"may not {word} AppArmor annotations")
        if key == MIRROR:
            yield forbidden(f"metadata.annotations[{key}]", f"may not {word} mirror pod annotation")
    yield from _validate_annotations(new)


def validate_pod_update(new: Json, old: Json) -> Iterator[Mistake]:
    """A pod runs as it was made: only a few fields of its spec may change."""
    spec, former = new["spec"], old["spec"]
    yield from _validate_annotations(new)
    yield from _validate_spec(new)
    yield from validate_annotations_update(new, old)
    for key in ("containers", "initContainers"):
        if len(spec.get(key) or ()) != len(former.get(key) or ()):
            yield forbidden(f"spec.{key}", "pod updates may not add or remove containers")
            return
        for index, container in enumerate(spec.get(key) or ()):
            if not container.get("image"):
                yield required(f"spec.{key}[{index}].image")
            yield from validate_blanks(container, f"spec.{key}[{index}]")
    deadline = list(_validate_deadline(spec, former))
    yield from deadline
    if deadline and "activeDeadlineSeconds" in spec:
        return
    if _keeps_tolerations(spec, former):
        yield from validate_tolerations(spec.get("tolerations") or [], "spec.tolerations")
    else:
        yield forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")
    for gate, index in {gate: index for index, gate in enumerate(gates_of(spec))}.items():
        if gate not in gates_of(former):
            why = f"only deletion is allowed, but found new scheduling gate '{gate}'"
            yield forbidden(f"spec.schedulingGates[{index}].name", why)
    if gates_of(former):
        yield from validate_narrowing(spec, former)
    restored = _restored(spec, former)
    if restored != former and (difference := spec_difference(former, restored, empties_of(new))):
        yield forbidden("spec", _UPDATE_RULE + difference)


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


def _keeps_tolerations(spec: Json, former: Json) -> bool:
    def without_seconds(tolerations: Any) -> list[Json]:
        return [{k: v for k, v in each.items() if k != "tolerationSeconds"} for each in tolerations or ()]

    kept = without_seconds(spec.get("tolerations"))
    return all(each in kept for each in without_seconds(former.get("tolerations")))


def _restored(spec: Json, former: Json) -> Json:
    """The new spec with everything that may change set back to what it was."""
    restored = dict(spec)
    for key in ("containers", "initContainers"):
        if spec.get(key):
            pairs = zip(spec[key], former[key], strict=True)
            restored[key] = [{**each, "image": before.get("image")} for each, before in pairs]
    for key in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        _take(restored, former, key)
    if gates_of(former):
        _take(restored, former, "nodeSelector")
        affinity = restored_affinity(spec, former)
        _take(restored, {} if affinity is None else {"affinity": affinity}, "affinity")
    if former.get("terminationGracePeriodSeconds", 0) < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        _take(restored, former, "terminationGracePeriodSeconds")
    return restored


def _take(target: Json, source: Json, key: str) -> None:
    if key in source:
        target[key] = source[key]
    else:
        target.pop(key, None)


def validate_ephemeral_update(new: Json, old: Json) -> Iterator[Mistake]:
    """Containers for debugging are added, and neither removed nor changed."""
    if MIRROR in (old["metadata"].get("annotations") or {}):
        yield forbidden("", "static pods do not support ephemeral containers")
        return
    yield from _validate_annotations(new)
    yield from _validate_spec(new)
    yield from validate_annotations_update(new, old)
    now = {each["name"]: each for each in new["spec"].get("ephemeralContainers") or ()}
    for each in old["spec"].get("ephemeralContainers") or ():
        if each["name"] not in now:
            why = f"existing ephemeral containers {quote(each['name'])} may not be removed\n"
            yield forbidden("spec.ephemeralContainers", why)
        elif now[each["name"]] != each:
            why = f"existing ephemeral containers {quote(each['name'])} may not be changed\n"
            yield forbidden("spec.ephemeralContainers", why + ephemeral_difference(each, now[each["name"]]))


# What a pod asks for, while it runs.
_RESIZABLE: Final = ("cpu", "memory")


def validate_resize(new: Json, old: Json) -> Iterator[Mistake]:
    """Only processor time and memory may change, and not so that the pod would be of another class."""
    spec, former = new["spec"], old["spec"]
    if MIRROR in (old["metadata"].get("annotations") or {}):
        yield forbidden("", "static pods cannot be resized")
        return
    if (former.get("os") or {}).get("name") == "windows":
        yield forbidden("", "windows pods cannot be resized")
        return
    mistakes = [*_validate_annotations(new), *_validate_spec(new)]
    if str(pod_from({**new, "status": {}}).qos) != old["status"].get("qosClass"):
        why = "Pod QOS Class may not change as a result of resizing"
        mistakes.append(invalid("spec", old["status"].get("qosClass", ""), why))
    running = (each for each in old["status"].get("containerStatuses") or () if "running" in each["state"])
    if "resources" not in next(running, {"resources": {}}):
        mistakes.append(forbidden("spec", "Pod running on node without support for resize"))
    mistakes += _validate_whole_resize(spec, former)
    yield from mistakes
    order = list(_validate_order(spec, former))
    yield from order
    if not order:
        yield from _validate_resized(spec, former)


def _validate_whole_resize(spec: Json, former: Json) -> Iterator[Mistake]:
    now, before = spec.get("resources"), former.get("resources")
    if not any((each or {}).get(part) for each in (now, before) for part in ("limits", "requests")):
        return
    if before is not None and now is None:
        yield forbidden("spec.resources", "pod-level resources cannot be removed")
        return
    for part in ("requests", "limits"):
        if (before or {}).get(part, {}).keys() - (now or {}).get(part, {}).keys():
            yield forbidden(f"spec.resources.{part}", f"pod-level resource {part} cannot be removed")
    if _fixed(now or {}) != _fixed(before or {}):
        yield forbidden("spec", "only cpu and memory resources are mutable at pod-level")


def _validate_order(spec: Json, former: Json) -> Iterator[Mistake]:
    for key in ("containers", "initContainers"):
        now, before = spec.get(key) or [], former.get(key) or []
        if len(now) != len(before):
            yield forbidden(f"spec.{key}", f"{key} may not be added or removed on resize")
            continue
        for index, (each, old) in enumerate(zip(now, before, strict=True)):
            if each["name"] != old["name"]:
                why = f"{key} may not be renamed or reordered on resize"
                yield forbidden(f"spec.{key}[{index}].name", why)


def _validate_resized(spec: Json, former: Json) -> Iterator[Mistake]:
    for key in ("initContainers", "containers"):
        for index, (now, before) in enumerate(zip(spec.get(key) or (), former.get(key) or (), strict=True)):
            for part in ("requests", "limits"):
                if (before["resources"].get(part) or {}).keys() - (now["resources"].get(part) or {}).keys():
                    where = f"spec.{key}[{index}].resources.{part}"
                    yield forbidden(where, f"resource {part} cannot be removed")
    for now, before in zip(spec.get("containers") or (), former.get("containers") or (), strict=True):
        if _unsized(now) != _unsized(before):
            yield forbidden("spec", "only cpu and memory resources are mutable")
    pairs = zip(spec.get("initContainers") or (), former.get("initContainers") or (), strict=True)
    for index, (now, before) in enumerate(pairs):
        where = f"spec.initContainers[{index}]"
        if _unsized(now) != _unsized(before):
            yield forbidden(where, "only cpu and memory resources for init or sidecar containers are mutable")
        if now == before or now.get("restartPolicy") == "Always":
            continue
        for policy in now.get("resizePolicy") or ():
            if policy["restartPolicy"] == "RestartContainer":
                why = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"
                yield forbidden(where, why)


def _unsized(container: Json) -> Json:
    """The container without what may be resized, but with its policies: those are compared."""
    return {**container, "resources": _fixed(container["resources"])}


def _fixed(resources: Json) -> Json:
    return {
        part: {name: amount for name, amount in (resources.get(part) or {}).items() if name not in _RESIZABLE}
        for part in ("limits", "requests")
    }
