"""Runtime classes: what they may say, and what a pod gets from the one that it names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from jettison.apiserver.objects.validation.metadata import label_name, validate_labels, validate_metadata_update
from jettison.apiserver.objects.validation.mistakes import Mistake, duplicate, invalid, required
from jettison.apiserver.objects.validation.pod.placement import validate_tolerations
from jettison.apiserver.objects.validation.resources import validate_requirements
from jettison.apiserver.objects.warnings import OLD_NODE_LABELS
from jettison.engine.numbers.quantity import parse
from jettison.errors import InputError

Json = dict[str, Any]

_LIST_KEYS: Final = ("key", "operator", "value", "effect")
_OTHER_OVERHEAD: Final = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
_NO_OVERHEAD: Final = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"


def validate_runtime_class(value: Json) -> Iterator[Mistake]:
    """A new one."""
    handler = value.get("handler", "")
    if not handler:
        yield required("handler")
    else:
        yield from (invalid("handler", handler, why) for why in label_name(handler))
    if (overhead := value.get("overhead")) is not None:
        yield from validate_requirements({"limits": overhead.get("podFixed") or {}}, "overhead")
    scheduling = value.get("scheduling") or {}
    yield from validate_labels(scheduling.get("nodeSelector") or {}, "scheduling.nodeSelector")
    tolerations = scheduling.get("tolerations") or []
    yield from validate_tolerations(tolerations, "scheduling.tolerations")
    seen: set[tuple[str, ...]] = set()
    for index, each in enumerate(tolerations):
        key = tuple(each.get(part, "") for part in _LIST_KEYS)
        if key in seen:
            shown = {part.capitalize(): each.get(part, "") for part in _LIST_KEYS}
            shown["TolerationSeconds"] = each.get("tolerationSeconds")
            yield duplicate(f"scheduling.tolerations[{index}]", shown)
        seen.add(key)


def validate_runtime_class_update(new: Json, old: Json) -> Iterator[Mistake]:
    """The handler stays. Its metadata are compared in between, as upstream does."""
    yield from validate_runtime_class(new)
    yield from validate_metadata_update(new["metadata"], old["metadata"])
    if new.get("handler", "") != old.get("handler", ""):
        yield invalid("handler", new.get("handler", ""), "field is immutable")


def warn_runtime_class(value: Json) -> Iterator[str]:
    """Of labels that nodes no longer have."""
    for key in (value.get("scheduling") or {}).get("nodeSelector") or {}:
        if key in OLD_NODE_LABELS:
            yield f"scheduling.nodeSelector: {OLD_NODE_LABELS[key]}"


def give_class(spec: Json, runtime_class: Json) -> None:
    """Write into a new pod what its class adds. Raises InputError with the reason why it cannot have the class."""
    fixed = _fixed(runtime_class)
    if fixed is not None:
        if spec.get("overhead") and not _is_same(spec["overhead"], fixed):
            raise InputError(_OTHER_OVERHEAD)
        if fixed:
            spec["overhead"] = dict(fixed)
        else:
            spec.pop("overhead", None)
    scheduling = runtime_class.get("scheduling")
    if scheduling is None:
        return
    selector = dict(spec.get("nodeSelector") or {})
    for key, value in sorted((scheduling.get("nodeSelector") or {}).items()):
        if selector.get(key, value) != value:
            theirs = f"runtimeClass.scheduling.nodeSelector[{key}] = {value}"
            raise InputError(f"conflict: {theirs}; pod.spec.nodeSelector[{key}] = {selector[key]}")
        selector[key] = value
    if selector:
        spec["nodeSelector"] = selector
    merged = _merge([*(spec.get("tolerations") or ()), *(scheduling.get("tolerations") or ())])
    if merged:
        spec["tolerations"] = merged


def check_overhead(spec: Json, runtime_class: Json | None, *, is_given: bool) -> None:
    """Of a pod that is whole: it has the overhead of its class and no other. Raises InputError.

    `is_given`: the client has named an overhead, be it an empty one.
    """
    fixed = None if runtime_class is None else _fixed(runtime_class)
    if fixed is None:
        if is_given:
            raise InputError(_NO_OVERHEAD)
    elif not _is_same(spec.get("overhead") or {}, fixed):
        raise InputError(_OTHER_OVERHEAD)


def _fixed(runtime_class: Json) -> Json | None:
    overhead = runtime_class.get("overhead")
    return None if overhead is None else overhead.get("podFixed") or {}


def _is_same(one: Json, other: Json) -> bool:
    return one.keys() == other.keys() and all(parse(one[key]) == parse(other[key]) for key in one)


def _merge(tolerations: list[Json]) -> list[Json]:
    """Without those that another one includes; of two equal ones the first stays."""
    merged: list[Json] = []
    for index, each in enumerate(tolerations):
        if any(_includes(other, each) for other in merged):
            continue
        if any(other != each and _includes(other, each) for other in tolerations[index + 1 :]):
            continue
        merged.append(each)
    return merged


def _includes(wide: Json, narrow: Json) -> bool:
    if wide == narrow:
        return True
    key, operator, effect = (wide.get(part, "") for part in ("key", "operator", "effect"))
    if narrow.get("key", "") != key and (key or operator != "Exists"):
        return False
    if effect and narrow.get("effect", "") != effect:
        return False
    if effect == "NoExecute" and wide.get("tolerationSeconds") is not None:
        seconds = narrow.get("tolerationSeconds")
        if seconds is None or seconds > wide["tolerationSeconds"]:
            return False
    if operator in ("", "Equal"):
        return narrow.get("operator") == "Equal" and narrow.get("value", "") == wide.get("value", "")
    return bool(operator == "Exists")
