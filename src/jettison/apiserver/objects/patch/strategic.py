"""Strategic merge patch: a merge patch that knows which lists are sets of named things.

`containers: [{name: web, image: new}]` changes one container and leaves the others alone, because the schema says that
containers are merged by name. Directives, whose names begin with `$`, remove elements, replace wholes or order lists.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from jettison.apiserver.http.statuses import undecodable_patch, unfit_patch
from jettison.manifests.files.kinds import Field, Type, structs

Json = dict[str, Any]
Fields = dict[str, Field]

_DIRECTIVE: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_ORDER: Final = "$setElementOrder/"
_DROP: Final = "$deleteFromPrimitiveList/"


def apply_strategic_patch(document: Json, patch: Any, struct: str) -> Json:
    """The new document; `struct` is the name under which the schema has its fields."""
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
