"""Three kinds of patches, each a pure function from the old document and the patch to the new one.

Whether the result is valid is not asked here. Nothing of the old document may be changed: it is stored.
"""

from __future__ import annotations

import copy
import re
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from jettison.apiserver.http.statuses import bad_request, undecodable_patch, unfit_patch
from jettison.apiserver.http.texts import depth_of, go_text
from jettison.engine.numbers.strconv import quote
from jettison.errors import ApiError
from jettison.manifests.files.decoding import DEEPEST
from jettison.manifests.files.kinds import Field, structs

Json = dict[str, Any]
Fields = dict[str, Field]
Patcher = Callable[[Json, Any, str, int], Any]

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"

MOST_OPERATIONS: Final = 10_000

_MOST_PUSHED: Final = 64_000_000
"""Elements of lists that make room for others or close a gap: 100 ms. Half a million ones and 10,000 more in front of
them would be 5 s.
"""

_encode = msgspec.json.Encoder().encode
_INDEX: Final = re.compile(r"[+-]?[0-9]{1,9}", re.ASCII)

_DIRECTIVE: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_ORDER: Final = "$setElementOrder/"
_DROP: Final = "$deleteFromPrimitiveList/"


def apply_json_patch(document: Any, patch: Any, most_bytes: int) -> Any:
    """JSON patch (RFC 6902): a list of operations on paths, all or nothing.

    All copies together have at most `most_bytes`: 17 copies of the whole into itself make a gigabyte of a pod.
    """
    if not isinstance(patch, list) or not all(isinstance(each, dict | None) for each in patch):
        raise undecodable_patch("json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    if len(patch) > MOST_OPERATIONS:
        message = f"The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {len(patch)}"
        raise ApiError(message, code=413, reason="RequestEntityTooLarge")
    # The old document is stored, and operations go anywhere in it.
    root = [copy.deepcopy(document)]
    budget = _Budget(most_bytes)
    for operation in patch:
        _apply(root, operation or {}, budget)
    seen: set[int] = set()
    for operation in filter(None, patch):
        for name in ("path", "from") if operation["op"] in ("move", "copy") else ("path",):
            _sort_along(root[0], operation.get(name), seen)
    return root[0]


def _sort_along(document: Any, path: object, seen: set[int]) -> None:
    """Kubernetes sorts the keys of every object that a path leads through; warnings come in the order of the keys.

    Each object once (`seen`), because thousands of operations may lead through the same.
    """
    value = document
    for step in _split(path) if isinstance(path, str) and "/" in path else ():
        if isinstance(value, dict):
            if id(value) not in seen:
                seen.add(id(value))
                for key in sorted(value):
                    value[key] = value.pop(key)
            value = value.get(step)
        elif isinstance(value, list) and _INDEX.fullmatch(step) and -len(value) <= int(step) < len(value):
            value = value[int(step)]
        else:
            return


class _Budget:
    """What the operations of one patch may cost together."""

    __slots__ = ("_bytes", "_elements")

    def __init__(self, most_bytes: int) -> None:
        self._bytes = most_bytes
        self._elements = _MOST_PUSHED

    def copy(self, value: Any) -> None:
        """Count a value that is copied, or looked through."""
        self._bytes -= len(_encode(value))
        if self._bytes < 0:
            raise unfit_patch()

    def push(self, elements: int) -> None:
        """Count elements of a list that another one comes before, or leaves."""
        self._elements -= elements
        if self._elements < 0:
            raise unfit_patch()


def _apply(root: list[Any], operation: dict[str, Any], budget: _Budget) -> None:
    """Apply one operation.

    A value that is left out is null. A key that an object does not have can be replaced and copied, as null: so does
    the library that Kubernetes uses, against the standard.
    """
    name, value = operation.get("op"), operation.get("value")
    match name:
        case "add":
            _add(root, _split(operation.get("path")), copy.deepcopy(value), budget)
        case "remove":
            _remove(root, _split(operation.get("path")), budget)
        case "replace":
            _replace(root, operation.get("path"), copy.deepcopy(value))
        case "move":
            source = _split(operation.get("from"))
            moved = _get(_parent(root, source), source[-1])
            # Moving copies nothing, but measuring the depth of a value takes as long as copying it.
            budget.copy(moved)
            _remove(root, source, budget)
            _add(root, _split(operation.get("path")), moved, budget)
        case "copy":
            source = _split(operation.get("from"))
            found = _get(_parent(root, source), source[-1])
            budget.copy(found)
            _add(root, _split(operation.get("path")), copy.deepcopy(found), budget)
        case "test":
            _test(root, operation.get("path"), value)
        case _:
            raise unfit_patch()


def _check_depth(path: list[str], value: Any) -> None:
    """The document must not become deeper than one that is sent whole may be."""
    if len(path) + depth_of(value) > DEEPEST:
        raise unfit_patch()


def _split(path: object) -> list[str]:
    """The steps from the root, of which there must be one. What stands before the first slash does not matter."""
    if not isinstance(path, str):
        raise unfit_patch()
    steps = path.split("/")[1:]
    if not steps:
        raise unfit_patch()
    return [step.replace("~1", "/").replace("~0", "~") for step in steps]


def _parent(root: list[Any], path: list[str]) -> Any:
    """What holds the value at a path: an object or a list. The document is the only element of `root`."""
    value: Any = root[0]
    for step in path[:-1]:
        value = _get(value, step)
        if not isinstance(value, dict | list):
            raise unfit_patch()
    return value


def _get(holder: Any, step: str) -> Any:
    """The value at a step; null for a key that is not there."""
    if isinstance(holder, dict):
        return holder.get(step)
    return holder[_index(step, len(holder))]


def _index(step: str, end: int) -> int:
    """A place before `end`; a negative number counts from there."""
    if not _INDEX.fullmatch(step):
        raise unfit_patch()
    place = int(step)
    if not -end <= place < end:
        raise unfit_patch()
    return place + end if place < 0 else place


def _add(root: list[Any], path: list[str], value: Any, budget: _Budget) -> None:
    parent, step = _parent(root, path), path[-1]
    _check_depth(path, value)
    if isinstance(parent, dict):
        parent[step] = value
    else:
        place = len(parent) if step == "-" else _index(step, len(parent) + 1)
        budget.push(len(parent) - place)
        parent.insert(place, value)


def _replace(root: list[Any], path: object, value: Any) -> None:
    if path == "":
        if not isinstance(value, dict | list):
            raise unfit_patch()
        _check_depth([], value)
        root[0] = value
        return
    steps = _split(path)
    parent, step = _parent(root, steps), steps[-1]
    _check_depth(steps, value)
    parent[step if isinstance(parent, dict) else _index(step, len(parent))] = value


def _remove(root: list[Any], path: list[str], budget: _Budget) -> None:
    parent, step = _parent(root, path), path[-1]
    if isinstance(parent, dict):
        if step not in parent:
            raise unfit_patch()
        del parent[step]
    else:
        place = _index(step, len(parent))
        budget.push(len(parent) - place)
        del parent[place]


def _test(root: list[Any], path: object, expected: Any) -> None:
    if path == "":
        found = root[0]
    else:
        steps = _split(path)
        found = _get(_parent(root, steps), steps[-1])
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
    return _merge(document, patch, struct)


def left_of_strategic_patch(document: Json, patch: Json, struct: str) -> Json:
    """The patch as upstream's merging leaves it, and then shows it: without nulls where there was nothing to remove."""
    if patch.get(_DIRECTIVE) == "replace":
        return {key: value for key, value in patch.items() if key != _DIRECTIVE}
    fields, left = _fields_of(struct), {}
    value: Any
    for key, value in patch.items():
        old: Any = document.get(key)
        field = fields.get(key)
        if key == _RETAIN or key.startswith(_ORDER) or f"{_ORDER}{key}" in patch:
            # A list whose order is given is taken out when it is merged.
            continue
        if type(old) is not type(value):
            left[key] = _left_of_new(_without_nulls(value))
        elif isinstance(old, dict) and not (field is not None and field.is_replaced):
            left[key] = left_of_strategic_patch(old, value, _struct_of(field))
        elif isinstance(old, list) and field is not None and field.merge_key:
            left[key] = _left_of_elements(old, value, field)
        else:
            left[key] = value
    return left


def _left_of_new(value: Any) -> Any:
    """What is new is taken over without directives, and they are gone from inside of it: not from a list itself."""
    if isinstance(value, list):
        return [_left_of_new(each) for each in value]
    return value if _is_directive(value) else _undirected(value)


def _left_of_elements(old: list[Any], patch: list[Any], field: Field) -> list[Any]:
    if any(_is_directive(each) and each[_DIRECTIVE] == "replace" for each in patch):
        # Nothing is merged then.
        return patch
    known = {_identity(each, field.merge_key): each for each in reversed(old) if isinstance(each, dict)}
    struct = field.type.element.base if field.type.element.is_struct else ""
    return [
        left_of_strategic_patch(found, each, struct)
        if isinstance(each, dict)
        and _DIRECTIVE not in each
        and (found := known.get(_identity(each, field.merge_key))) is not None
        else each
        for each in patch
    ]


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


def _struct_of(field: Field | None) -> str:
    """The name of the struct that a field is; empty for a map of strings, and where nothing is known."""
    return field.type.base if field is not None and field.type.is_struct else ""


def _fields_of(struct: str) -> Fields:
    return structs()[struct].fields if struct else {}


def _merge_ordered(merged: Json, patch: Json, struct: str) -> Iterator[str]:
    """Merge the lists whose order the patch says. Yields their names: they are done with."""
    for key, order in patch.items():
        if not key.startswith(_ORDER):
            continue
        name = key.removeprefix(_ORDER)
        for holder, each in ((patch, key), (merged, name), (patch, name)):
            if each in holder and not isinstance(holder[each], list):
                raise ApiError(f"expected a []interface {{}}, but received a {_go_type(holder[each])}")
        if not struct:
            raise ApiError("merging an object in json but data type is not struct, instead is: map")
        if name not in _fields_of(struct):
            raise ApiError(f"unable to find api field in struct {struct} for the json field {quote(name)}")
        field = _fields_of(struct)[name]
        merge_key = field.merge_key or None
        old, new = merged.get(name), patch.get(name)
        if order and new:
            _check_order(new, order, merge_key)
        if old is None and new is None:
            continue
        if old is None or new is None:
            both = _undirected(new) if old is None else old
        else:
            both = _merge_list(old, new, field)
        _check_elements(both, order, old or [], new or [], merge_key)
        merged[name] = _ordered(both, old or [], order, merge_key)
        yield name


def _check_elements(both: list[Any], order: list[Any], old: list[Any], new: list[Any], key: str | None) -> None:
    """What is put in order must be of one type, and have what it is known by."""
    if key is not None:
        _check_keys(both, key)
        if both and not all(isinstance(each, dict) for each in order):
            raise ApiError(f"value for key {[isinstance(each, dict) for each in order].index(False)} is not a map")
    if not old and not new:
        raise ApiError("no elements in any of the given slices")
    if len({type(each) for each in (*old, *new)}) > 1:
        raise _mixed(old, new)
    if isinstance((old or new)[0], dict):
        _check_keys([*order, *old], key or "")


def _check_keys(elements: list[Any], key: str) -> None:
    for each in elements:
        if not isinstance(each, dict):
            raise ApiError(f"expected a map[string]interface {{}}, but received a {_go_type(each)}")
        if key not in each:
            raise _without_key(each, key)


def _go_type(value: Any) -> str:
    for kind, name in ((bool, "bool"), (int, "int64"), (float, "float64"), (str, "string"), (list, "[]interface {}")):
        if isinstance(value, kind):
            return name
    return "%!s(<nil>)" if value is None else "map[string]interface {}"


def _merge(old: Json, patch: Json, struct: str) -> Json:
    fields = _fields_of(struct)
    if _DIRECTIVE in patch:
        match patch[_DIRECTIVE]:
            case "replace":
                return {key: value for key, value in patch.items() if key != _DIRECTIVE}
            case "delete":
                return {}
            case _:
                raise _unknown_directive(patch)
    merged = dict(old)
    if _RETAIN in patch:
        merged = _retained(merged, patch)
    done = {_DIRECTIVE, _RETAIN, *_merge_ordered(merged, patch, struct)}
    for key, value in patch.items():
        if key in done or key.startswith(_ORDER):
            continue
        if key.startswith(_DROP):
            _drop(merged, key.removeprefix(_DROP), value)
        elif value is None or (_is_directive(value) and not isinstance(merged.get(key), dict)):
            merged.pop(key, None)
        else:
            merged[key] = _merge_value(merged.get(key), value, fields.get(key))
    return merged


def _merge_value(old: Any, value: Any, field: Field | None) -> Any:
    if type(old) is not type(value):
        return _undirected(_without_nulls(value))
    if isinstance(value, dict):
        if field is not None and field.is_replaced:
            return value
        return _merge(old, value, _struct_of(field))
    return _merge_list(old, value, field) if isinstance(value, list) else value


def _is_directive(value: Any) -> bool:
    return isinstance(value, dict) and _DIRECTIVE in value


def _undirected(value: Any) -> Any:
    """What the object does not have yet, or not of this type: as the patch says it, without directives."""
    if isinstance(value, dict):
        return {key: _undirected(item) for key, item in value.items() if not _is_directive(item)}
    return [_undirected(each) for each in value if not _is_directive(each)] if isinstance(value, list) else value


def _unknown_directive(patch: Json) -> ApiError:
    found = patch[_DIRECTIVE]
    shown = go_text(found)
    if found is None or isinstance(found, bool | int | float):
        # As Go prints what it expects to be a text.
        shown = _go_type(found) if found is None else f"%!s({_go_type(found)}={shown})"
    return ApiError(f"unknown patch type: {shown} in map: {go_text(patch)}")


def _without_key(patch: Json, key: str) -> ApiError:
    return ApiError(f"map: {go_text(patch)} does not contain declared merge key: {key}")


def _retained(merged: Json, patch: Json) -> Json:
    kept = _hashable(patch[_RETAIN]) if isinstance(patch[_RETAIN], list) else {}
    known = (key for key, value in patch.items() if value is not None and not key.startswith((_RETAIN, _DROP, _ORDER)))
    if not isinstance(patch[_RETAIN], list) or any(key not in kept for key in known):
        raise bad_request("invalid patch format of retainKeys")
    return {key: value for key, value in merged.items() if key in kept}


def _drop(merged: Json, key: str, values: Any) -> None:
    if not isinstance(merged.get(key), list) or not isinstance(values, list):
        return
    if merged[key] and len({type(each) for each in (*merged[key], *values)}) > 1:
        raise _mixed(merged[key], values)
    dropped = _hashable(values)
    left = [each for each in _hashable(merged.get(key) or []) if each not in dropped]
    if left:
        merged[key] = left
    else:
        merged.pop(key, None)


def _mixed(old: list[Any], patch: list[Any]) -> ApiError:
    return ApiError(f"list element types are not identical: {go_text([old, patch])}")


def _merge_list(old: list[Any], patch: list[Any], field: Field | None) -> list[Any]:
    key = field.merge_key if field is not None else None
    if field is None or key is None:
        return patch
    if len({type(each) for each in (*old, *patch)}) > 1:
        raise _mixed(old, patch)
    if not key:
        return _ordered(list(_hashable([*old, *patch])), old, patch, None)
    if not all(isinstance(each, dict) for each in patch):
        raise unfit_patch()
    patched = [each for each in patch if _DIRECTIVE not in each]
    special = [each for each in patch if _DIRECTIVE in each]
    for each in special:
        _check_special(each, key)
    if any(each[_DIRECTIVE] == "replace" for each in special):
        _check_keys(patched, key)
        return patched
    # No element has an object or a list for its name.
    deleted = {each[key] for each in special if not isinstance(each[key], dict | list)}
    left = [each for each in old if _identity(each, key) not in deleted] if deleted else old
    merged = _merge_elements(left, patched, key, field.type.base)
    return _ordered(merged, left, patched, key)


def _check_special(element: Json, key: str) -> None:
    """An element that removes another one, or replaces the whole list."""
    match element[_DIRECTIVE]:
        case "delete":
            if key not in element:
                raise _without_key(element, key)
        case "replace":
            pass
        case "merge":
            raise ApiError("merging lists cannot yet be specified in the patch")
        case _:
            raise _unknown_directive(element)


def _check_order(patch: list[Any], order: list[Any], key: str | None) -> None:
    """The order must name what the patch changes, in the order of the patch."""
    left = list(patch)
    if key is not None:
        for each in patch:
            if not isinstance(each, dict):
                raise ApiError(f"expected a map[string]interface {{}}, but received a {_go_type(each)}")
        left = [each for each in patch if each.get(_DIRECTIVE) != "delete"]
    left.reverse()
    # Each search goes on where the last one ended. A directive is passed over, but not behind the end of the order.
    for wanted in order:
        while left and _is_directive(left[-1]):
            left.pop()
        if not left:
            return
        if key is not None:
            _check_keys([left[-1], wanted], key)
        if left[-1] == wanted if key is None else left[-1][key] == wanted[key]:
            left.pop()
    if left:
        lists = f"{go_text(patch)}\n doesn't match {_ORDER.removesuffix('/')} list:\n{go_text(order)}\n"
        raise ApiError(f"The order in patch list:\n{lists}")


def _merge_elements(old: list[Any], patch: list[Json], key: str, struct: str) -> list[Any]:
    slots = dict(enumerate(old))
    # Where each is, the first place last.
    places: dict[Any, list[int]] = {}
    for at in reversed(range(len(old))):
        places.setdefault(_identity(old[at], key), []).append(at)
    for place, each in enumerate(patch, len(old)):
        if key not in each:
            raise _without_key(each, key)
        found = places.setdefault(_identity(each, key), [])
        if found:
            slots[found[-1]] = _merge(slots[found[-1]], each, struct)
        else:
            found.append(place)
            slots[place] = each
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
    JSON_PATCH: lambda document, patch, _, most_bytes: apply_json_patch(document, patch, most_bytes),
    MERGE_PATCH: lambda document, patch, *_: apply_merge_patch(document, patch),
    STRATEGIC_PATCH: lambda document, patch, struct, _: apply_strategic_patch(document, patch, struct),
}


def apply_merge_patch(target: Any, patch: Any) -> Any:
    """JSON merge patch (RFC 7386): an object says what changes, null removes, everything else replaces.

    The new value shares with the old one whatever the patch does not touch.
    """
    if isinstance(patch, list):
        return [apply_merge_patch(None, each) if isinstance(each, dict) else each for each in patch]
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = apply_merge_patch(merged.get(key), value)
    # As Kubernetes does; warnings come in the order of the keys.
    return dict(sorted(merged.items()))
