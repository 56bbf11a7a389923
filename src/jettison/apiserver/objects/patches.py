"""The four kinds of patches, each a pure function from the old document and the patch to the new one.

Whether the result is valid is not asked here. Nothing of the old document may be changed: it is stored.
"""

from __future__ import annotations

import copy
import re
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import msgspec

from jettison.apiserver.http.statuses import undecodable_patch, unfit_patch
from jettison.apiserver.http.texts import depth_of
from jettison.errors import ApiError
from jettison.manifests.files.decoding import DEEPEST
from jettison.manifests.files.kinds import Field, Type, structs

Json = dict[str, Any]
Fields = dict[str, Field]
Patcher = Callable[[Json, Any, str], Any]

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"

MOST_OPERATIONS: Final = 10_000
MOST_COPIED_BYTES: Final = 3 * 1024 * 1024
"""Of all copies of a patch together. 17 copies of the whole into itself would make a gigabyte of a pod."""

_encode = msgspec.json.Encoder().encode
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,8}")

_DIRECTIVE: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_ORDER: Final = "$setElementOrder/"
_DROP: Final = "$deleteFromPrimitiveList/"


def apply_json_patch(document: Any, patch: Any) -> Any:
    """JSON patch (RFC 6902): a list of operations on paths, all or nothing."""
    if not isinstance(patch, list) or not all(isinstance(each, dict) for each in patch):
        raise undecodable_patch("json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    if len(patch) > MOST_OPERATIONS:
        message = f"The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {len(patch)}"
        raise ApiError(message, code=413, reason="RequestEntityTooLarge")
    # The old document is stored, and operations go anywhere in it.
    root = [copy.deepcopy(document)]
    copied = 0
    for operation in patch:
        copied += _apply(root, operation, MOST_COPIED_BYTES - copied)
    return root[0]


def _apply(root: list[Any], operation: dict[str, Any], most_bytes: int) -> int:
    """Apply one operation; the answer is how many bytes it copied, of at most `most_bytes`."""
    name, path = operation.get("op"), _split(operation.get("path"))
    if name in ("add", "replace") and "value" not in operation:
        raise unfit_patch()
    match name:
        case "add":
            _add(root, path, _at_depth(path, copy.deepcopy(operation["value"])))
        case "remove":
            _remove(root, path)
        case "replace":
            _find(root, path)
            _set(root, path, _at_depth(path, copy.deepcopy(operation["value"])))
        case "move":
            source = _split(operation.get("from"))
            if path[: len(source)] == source and path != source:
                raise unfit_patch()
            value = _find(root, source)
            # Moving copies nothing, but measuring the depth of a value takes as long as copying it.
            size = _size(value, most_bytes)
            _remove(root, source)
            _add(root, path, _at_depth(path, value))
            return size
        case "copy":
            value = _find(root, _split(operation.get("from")))
            size = _size(value, most_bytes)
            _add(root, path, _at_depth(path, copy.deepcopy(value)))
            return size
        case "test":
            _test(root, path, operation.get("value"))
        case _:
            raise unfit_patch()
    return 0


def _size(value: Any, most_bytes: int) -> int:
    size = len(_encode(value))
    if size > most_bytes:
        raise unfit_patch()
    return size


def _at_depth(path: list[str], value: Any) -> Any:
    """The value, if the document does not become deeper by it than one that is sent whole may be."""
    if len(path) - 1 + depth_of(value) > DEEPEST:
        raise unfit_patch()
    return value


def _split(path: object) -> list[str]:
    """The steps from the root. The document is the only element of a list, so the first step always exists."""
    if not isinstance(path, str) or (path and not path.startswith("/")):
        raise unfit_patch()
    return ["0", *(step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:])]


def _find(root: list[Any], path: list[str]) -> Any:
    value: Any = root
    for step in path:
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list):
            value = value[_index(step, len(value) - 1)]
        else:
            raise unfit_patch()
    return value


def _index(step: str, last: int) -> int:
    if not _INDEX.fullmatch(step) or int(step) > last:
        raise unfit_patch()
    return int(step)


def _add(root: list[Any], path: list[str], value: Any) -> None:
    parent = _find(root, path[:-1])
    if isinstance(parent, list) and parent is not root:
        step = path[-1]
        parent.insert(len(parent) if step == "-" else _index(step, len(parent)), value)
    else:
        _set(root, path, value)


def _set(root: list[Any], path: list[str], value: Any) -> None:
    parent = _find(root, path[:-1])
    if isinstance(parent, dict):
        parent[path[-1]] = value
    elif isinstance(parent, list):
        parent[_index(path[-1], len(parent) - 1)] = value
    else:
        raise unfit_patch()


def _remove(root: list[Any], path: list[str]) -> None:
    parent = _find(root, path[:-1])
    if parent is root:
        raise unfit_patch()
    if isinstance(parent, dict) and path[-1] in parent:
        del parent[path[-1]]
    elif isinstance(parent, list):
        del parent[_index(path[-1], len(parent) - 1)]
    else:
        raise unfit_patch()


def _test(root: list[Any], path: list[str], expected: Any) -> None:
    try:
        found = _find(root, path)
    except ApiError:
        if expected is None:
            return
        raise
    # 1 and true are equal to Python.
    if found != expected or isinstance(found, bool) is not isinstance(expected, bool):
        raise unfit_patch()


def apply_strategic_patch(document: Json, patch: Any, struct: str) -> Json:
    """Strategic merge patch: a merge patch that knows which lists are sets of named things.

    `containers: [{name: web, image: new}]` changes one container and leaves the others alone, because the schema says
    that containers are merged by name. Directives, whose names begin with `$`, remove elements, replace wholes or order
    lists. `struct` is the name under which the schema has the document's fields.
    """
    if not isinstance(patch, dict):
        raise undecodable_patch("json: cannot unmarshal array into Go value of type map[string]interface {}")
    return _merge(document, patch, structs()[struct].fields)


def _fields_of(kind: Type | None) -> Fields:
    """What is known of the fields of a value; of a map of strings, nothing."""
    return structs()[kind.base].fields if kind is not None and kind.is_struct else {}


def _merge(old: Json, patch: Json, fields: Fields) -> Json:
    match patch.get(_DIRECTIVE):
        case None | "merge":
            merged = dict(old)
        case "replace":
            return {key: value for key, value in patch.items() if key != _DIRECTIVE}
        case "delete":
            return {}
        case _:
            raise unfit_patch()
    if _RETAIN in patch:
        merged = _retained(merged, patch)
    for key, value in patch.items():
        if key in (_DIRECTIVE, _RETAIN) or key.startswith(_ORDER):
            continue
        if key.startswith(_DROP):
            _drop(merged, key.removeprefix(_DROP), value)
        elif value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merge_value(merged.get(key), value, fields.get(key), patch.get(_ORDER + key))
    for key in patch:
        name = key.removeprefix(_ORDER)
        if key.startswith(_ORDER) and name not in patch and isinstance(merged.get(name), list):
            field = fields.get(name)
            merged[name] = _ordered(merged[name], merged[name], patch[key], field.merge_key if field else None)
    return merged


def _merge_value(old: Any, value: Any, field: Field | None, order: Any) -> Any:
    if isinstance(value, dict):
        if field is not None and field.is_replaced:
            return {key: item for key, item in value.items() if key != _DIRECTIVE}
        return _merge(old if isinstance(old, dict) else {}, value, _fields_of(field.type if field else None))
    if isinstance(value, list) and field is not None and field.merge_key is not None:
        return _merge_list(old if isinstance(old, list) else [], value, field, order)
    return value


def _retained(merged: Json, patch: Json) -> Json:
    kept = _hashable(patch[_RETAIN])
    return {key: value for key, value in merged.items() if key in kept}


def _drop(merged: Json, key: str, values: Any) -> None:
    dropped = _hashable(values)
    left = [each for each in _hashable(merged.get(key) or []) if each not in dropped]
    if left:
        merged[key] = left
    else:
        merged.pop(key, None)


def _merge_list(old: list[Any], patch: list[Any], field: Field, order: Any) -> list[Any]:
    key = field.merge_key
    if not key:
        merged = list(_hashable([*old, *patch]))
        return _ordered(merged, old, order if order is not None else patch, None)
    if not all(isinstance(each, dict) for each in patch):
        raise unfit_patch()
    if any(each.get(_DIRECTIVE) == "replace" for each in patch):
        return [each for each in patch if _DIRECTIVE not in each]
    patched = [each for each in patch if each.get(_DIRECTIVE) != "delete"]
    merged = _merge_elements(old, patch, key, _fields_of(field.type.element))
    return _ordered(merged, old, order if order is not None else patched, key)


def _merge_elements(old: list[Any], patch: list[Json], key: str, fields: Fields) -> list[Any]:
    slots = dict(enumerate(old))
    # Where each is, the first place last.
    places: dict[Any, list[int]] = {}
    for at in reversed(range(len(old))):
        places.setdefault(_identity(old[at], key), []).append(at)
    for place, each in enumerate(patch, len(old)):
        if key not in each:
            raise unfit_patch()
        found = places.setdefault(_identity(each, key), [])
        if each.get(_DIRECTIVE) == "delete":
            if found:
                del slots[found.pop()]
        elif found:
            slots[found[-1]] = _merge(slots[found[-1]], each, fields)
        else:
            found.append(place)
            slots[place] = _merge({}, each, fields)
    return list(slots.values())


def _hashable(values: Any) -> dict[Any, None]:
    """Each text or number once, in their order. To search a list for every element of another takes quadratic time."""
    if not isinstance(values, list) or any(isinstance(each, dict | list) for each in values):
        raise unfit_patch()
    return dict.fromkeys(values)


def _identity(item: Any, key: str | None) -> Any:
    """What an element is known by: its key, or itself if it is a text."""
    found = item if key is None else item.get(key) if isinstance(item, dict) else None
    if isinstance(found, dict | list):
        raise unfit_patch()
    return found


def _ranks(values: Any, key: str | None) -> dict[Any, int]:
    """The place of each; of one that is there twice, the first."""
    if not isinstance(values, list):
        raise unfit_patch()
    return {_identity(values[at], key): at for at in reversed(range(len(values)))}


def _ordered(merged: list[Any], old: list[Any], order: Any, key: str | None) -> list[Any]:
    """Elements that the patch names, in its order, before the others, unless one of those was before them already."""
    wanted, former = _ranks(order, key), _ranks(old, key)
    known = [(_identity(each, key), each) for each in merged]
    named = deque(sorted((pair for pair in known if pair[0] in wanted), key=lambda pair: wanted[pair[0]]))
    others = deque(pair for pair in known if pair[0] not in wanted)
    result: list[Any] = []
    while named and others:
        one, two = former.get(others[0][0]), former.get(named[0][0])
        was_before = one is not None and two is not None and one < two
        result.append((others if was_before else named).popleft()[1])
    return [*result, *(each for _, each in named), *(each for _, each in others)]


PATCHERS: Final[dict[str, Patcher]] = {
    JSON_PATCH: lambda document, patch, _: apply_json_patch(document, patch),
    MERGE_PATCH: lambda document, patch, _: apply_merge_patch(document, patch),
    STRATEGIC_PATCH: apply_strategic_patch,
    # Without a record of which manager owns which field, what is applied is merged in, and a field that is left out
    # is not removed.
    APPLY_PATCH: apply_strategic_patch,
}


def apply_merge_patch(target: Any, patch: Any) -> Any:
    """JSON merge patch (RFC 7386): an object says what changes, null removes, everything else replaces.

    The new value shares with the old one whatever the patch does not touch.
    """
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = apply_merge_patch(merged.get(key), value)
    return merged
