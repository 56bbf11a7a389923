"""Strategic merge patch: a merge patch that knows which lists are sets of named things.

`containers: [{name: web, image: new}]` changes one container and leaves the others alone, because the schema says that
containers are merged by name. Directives, whose names begin with `$`, remove elements, replace wholes or order lists.
"""

from __future__ import annotations

from typing import Any, Final

from jettison.apiserver.patch.refusals import impossible, undecodable
from jettison.apiserver.schema.types import Field, Type, structs

Json = dict[str, Any]
Fields = dict[str, Field]

_DIRECTIVE: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_ORDER: Final = "$setElementOrder/"
_DROP: Final = "$deleteFromPrimitiveList/"


def apply_strategic_patch(document: Json, patch: Any, struct: str) -> Json:
    """The new document; `struct` is the name under which the schema has its fields."""
    if not isinstance(patch, dict):
        raise undecodable("json: cannot unmarshal array into Go value of type map[string]interface {}")
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
            raise impossible()
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
    kept = patch[_RETAIN]
    if not isinstance(kept, list):
        raise impossible()
    return {key: value for key, value in merged.items() if key in kept}


def _drop(merged: Json, key: str, values: Any) -> None:
    if not isinstance(values, list):
        raise impossible()
    left = [each for each in merged.get(key) or () if each not in values]
    if left:
        merged[key] = left
    else:
        merged.pop(key, None)


def _merge_list(old: list[Any], patch: list[Any], field: Field, order: Any) -> list[Any]:
    key = field.merge_key
    if not key:
        merged = [*old, *(each for each in dict.fromkeys(_hashable(patch)) if each not in old)]
        return _ordered(merged, old, order if order is not None else patch, None)
    if not all(isinstance(each, dict) for each in patch):
        raise impossible()
    if any(each.get(_DIRECTIVE) == "replace" for each in patch):
        return [each for each in patch if _DIRECTIVE not in each]
    fields = _fields_of(field.type.element)
    merged = list(old)
    patched = []
    for each in patch:
        if key not in each:
            raise impossible()
        index = next((at for at, item in enumerate(merged) if _identity(item, key) == each[key]), None)
        if each.get(_DIRECTIVE) == "delete":
            if index is not None:
                del merged[index]
            continue
        patched.append(each)
        if index is None:
            merged.append(_merge({}, each, fields))
        else:
            merged[index] = _merge(merged[index], each, fields)
    return _ordered(merged, old, order if order is not None else patched, key)


def _hashable(values: list[Any]) -> list[Any]:
    if any(isinstance(each, dict | list) for each in values):
        raise impossible()
    return values


def _identity(item: Any, key: str | None) -> Any:
    """What an element is known by: its key, or itself if it is a text."""
    if key is None:
        return item
    return item.get(key) if isinstance(item, dict) else None


def _ordered(merged: list[Any], old: list[Any], order: Any, key: str | None) -> list[Any]:
    """Elements that the patch names, in its order, before the others, unless one of those was before them already."""
    if not isinstance(order, list):
        raise impossible()
    wanted = [_identity(each, key) for each in order]
    former = [_identity(each, key) for each in old]
    named = sorted(
        (each for each in merged if _identity(each, key) in wanted), key=lambda e: wanted.index(_identity(e, key))
    )
    others = [each for each in merged if _identity(each, key) not in wanted]
    result: list[Any] = []
    while named and others:
        one, two = _identity(others[0], key), _identity(named[0], key)
        was_before = one in former and two in former and former.index(one) < former.index(two)
        result.append(others.pop(0) if was_before else named.pop(0))
    return [*result, *named, *others]
