"""Two values, side by side along the fields of their kind: what differs, what an apply makes of them, what is cut.

Where a list has keys or is a set, its elements are fields of their own; every other list, and a map or struct that is
marked so, is one value. An absent value differs from null, and both from an empty one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec

from jettison.apiserver.http.texts import go_text
from jettison.apiserver.objects.ownership.field_sets import SELF, FieldSet, below, is_member, step_text
from jettison.engine.numbers.strconv import quote
from jettison.errors import InputError
from jettison.manifests.files.kinds import Field, Type, structs

Json = dict[str, Any]


class _Absent:
    """There is no value."""


ABSENT: Final[Any] = _Absent()
_encode = msgspec.json.Encoder(order="sorted").encode
_LONGEST_SHOWN: Final = 4096
_NUMBERS: Final = ("int32", "int64", "float64")
_GO_TYPES: Final = {str: "string", bool: "bool", list: "[]interface {}", dict: "map[string]interface {}"}
_ZEROS: Final = {"string": "", "int32": 0, "int64": 0, "bool": False}


class Spot(NamedTuple):
    """What is known of the values at one place."""

    type: Type
    # The keys of a list's elements, if it has some; none for a set; None where the list is one value.
    keys: tuple[str, ...] | None = None
    is_atomic: bool = False

    @property
    def is_leaf(self) -> bool:
        """Whether the value has no fields of its own."""
        shape = self.type.shape
        if not shape:
            return not self.type.is_struct or structs()[self.type.base].is_atomic
        return self.keys is None if shape[0] == "[]" else self.is_atomic


def spot_of(struct: str) -> Spot:
    """That of a whole object."""
    return Spot(Type((), struct))


def _field_spot(field: Field) -> Spot:
    return Spot(field.type, field.keys, field.is_atomic)


def _inner(place: Spot, step: str) -> Spot:
    """What a step leads to."""
    if place.type.shape:
        return Spot(place.type.element)
    field = structs()[place.type.base].fields.get(step)
    return Spot(Type((), "any")) if field is None else _field_spot(field)


def _is_named(place: Spot, step: str) -> bool:
    """Whether it is a field of a struct, not a key of a map."""
    return step.startswith("f:") and place.type.is_struct and step[2:] in structs()[place.type.base].fields


def element_step(place: Spot, item: Any) -> str:
    """The step to an element of a list with keys, or of a set."""
    if not place.keys:
        return "v:" + _encode(item).decode()
    if not isinstance(item, dict):
        raise InputError("associative list with keys may not have non-map elements")
    known = {}
    for key in place.keys:
        value = item.get(key)
        if value is None:
            # Defaults of keys: a port without a protocol is one of TCP.
            base = structs()[place.type.base].fields[key].type.base
            value = "TCP" if key == "protocol" else _ZEROS.get(base, "")
        known[key] = value
    if place.keys[0] not in item and _lacks_keys(place, item):
        raise InputError(_without_keys(place))
    return "k:" + _encode(known).decode()


def _lacks_keys(place: Spot, item: Json) -> bool:
    return not any(key in item or _has_default(place.type.base, key) for key in place.keys or ())


def _without_keys(place: Spot) -> str:
    listed = f"[{' '.join(map(quote, place.keys or ()))}]"
    why = f"omits all key fields {listed} (and doesn't have default values for any key fields)"
    return f"associative list with keys has an element that {why}"


def _elements(place: Spot, items: Any) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for item in items if isinstance(items, list) else ():
        found.setdefault(element_step(place, item), []).append(item)
    return found


class Comparison(NamedTuple):
    """What the second of two values has more, less and otherwise."""

    added: FieldSet
    removed: FieldSet
    modified: FieldSet


def compare(place: Spot, old: Json, new: Json) -> Comparison:
    """Two objects of one kind."""
    found = Comparison({}, {}, {})
    _compare_children(place, old, new, found)
    return found


def _compare(place: Spot, old: Any, new: Any, found: tuple[FieldSet, FieldSet, FieldSet], step: str) -> None:
    if old is not ABSENT and new is not ABSENT and old == new:
        return
    added, removed, modified = found
    if place.is_leaf or (not _filled(old) and not _filled(new)):
        target = added if old is ABSENT else removed if new is ABSENT else modified
        target[step] = {}
        return
    inside = Comparison({}, {}, {})
    _compare_children(place, old, new, inside)
    for target, nodes, is_in in (
        (added, inside.added, old is ABSENT),
        (removed, inside.removed, new is ABSENT),
        (modified, inside.modified, False),
    ):
        if is_in:
            target[step] = {SELF: {}, **nodes} if nodes else {}
        elif nodes:
            target[step] = nodes


def _filled(value: Any) -> bool:
    return isinstance(value, dict | list) and bool(value)


def _compare_children(place: Spot, old: Any, new: Any, found: Comparison) -> None:
    if place.type.shape[:1] == ("[]",):
        before, after = _elements(place, old), _elements(place, new)
        inner = Spot(place.type.element)
        for step in dict.fromkeys((*before, *after)):
            one, two = before.get(step, []), after.get(step, [])
            if len(one) <= 1 and len(two) <= 1:
                _compare(inner, one[0] if one else ABSENT, two[0] if two else ABSENT, found, step)
                continue
            # Elements of the same keys are one value together; one that is alone has fields of its own.
            if len(one) > 1 and len(two) > 1:
                if one != two:
                    found.modified[step] = {}
                continue
            if len(one) == 1:
                _compare(inner, one[0], ABSENT, found, step)
            elif two:
                _compare(inner, ABSENT, two[0], found, step)
            (found.removed if len(one) > 1 else found.added)[step] = {}
        return
    before, after = old if isinstance(old, dict) else {}, new if isinstance(new, dict) else {}
    # All keys of a map lead to the same, and a budget may have thousands.
    shared = Spot(place.type.element) if place.type.shape else None
    for key in before | after:
        one, two = before.get(key, ABSENT), after.get(key, ABSENT)
        if one is not two:
            _compare(shared or _inner(place, key), one, two, found, f"f:{key}")


def fields_of(place: Spot, value: Json) -> FieldSet:
    """Every field that an object sets."""
    return _fields(place, value)


def _fields(place: Spot, value: Any) -> FieldSet:
    """Below a place; the place itself is for the caller to count."""
    if place.is_leaf or not isinstance(value, dict | list):
        return {}
    result: FieldSet = {}
    if place.type.shape[:1] == ("[]",):
        inner = Spot(place.type.element)
        for step, items in _elements(place, value).items():
            children = _fields(inner, items[0]) if len(items) == 1 else {}
            result[step] = {SELF: {}, **children} if children else {}
        return result
    assert isinstance(value, dict)
    for key, item in value.items():
        inner = _inner(place, key)
        children = _fields(inner, item)
        is_in = inner.is_leaf or item is None or item == {} or not _is_named(place, f"f:{key}")
        if children:
            result[f"f:{key}"] = {SELF: {}, **children} if is_in else children
        elif is_in:
            result[f"f:{key}"] = {}
    return result


def merge(place: Spot, live: Any, applied: Any) -> Any:
    """What an apply makes of an object: what is applied counts, the rest stays."""
    if applied is ABSENT:
        return live
    if live is ABSENT or place.is_leaf or (not _filled(live) and not _filled(applied)):
        if live is ABSENT and isinstance(applied, dict) and not place.is_leaf:
            return {key: merge(_inner(place, key), ABSENT, item) for key, item in applied.items()}
        return applied
    if place.type.shape[:1] == ("[]",):
        return _merge_lists(place, live or [], applied or [])
    before, after = live or {}, applied or {}
    merged = {}
    for key in dict.fromkeys((*before, *after)):
        merged[key] = merge(_inner(place, key), before.get(key, ABSENT), after.get(key, ABSENT))
    return merged


def _merge_lists(place: Spot, live: list[Any], applied: list[Any]) -> list[Any]:
    """Elements that are applied come in their order; the others stay before those that they were before."""
    inner = Spot(place.type.element)
    wanted = {element_step(place, item): item for item in applied}
    current = _elements(place, live)
    left = [element_step(place, item) for item in live]
    right = list(wanted)
    shared = [step for step in right if step in current]
    merged: list[Any] = []
    done: set[str] = set()

    def take(step: str) -> None:
        done.add(step)
        known = current.get(step, [])
        merged.append(merge(inner, known[0] if len(known) == 1 else ABSENT, wanted[step]))
        if shared and shared[0] == step:
            shared.pop(0)

    at, to = 0, 0
    while at < len(left) or to < len(right):
        if at < len(left) and to < len(right):
            if left[at] == right[to]:
                take(right[to])
                at, to = at + 1, to + 1
                continue
            if left[at] in wanted and shared and shared[0] != left[at]:
                at += 1
                continue
        if at < len(left):
            if left[at] not in wanted:
                merged.append(live[at])
                at += 1
                continue
            if left[at] in done:
                at += 1
        if to < len(right):
            if right[to] not in done:
                take(right[to])
            to += 1
    return merged


def cut(place: Spot, value: Any, fields: FieldSet) -> Any:
    """The value without these fields; ABSENT where nothing is left of it."""
    if not fields or place.is_leaf or not isinstance(value, dict | list):
        return value
    if place.type.shape[:1] == ("[]",):
        inner = Spot(place.type.element)
        kept = []
        for item in value:
            node = fields.get(element_step(place, item))
            if node is None:
                kept.append(item)
            elif not is_member(node) and (rest := cut(inner, item, node)) is not ABSENT:
                kept.append(rest)
        return kept or ABSENT
    assert isinstance(value, dict)
    left: Json = {}
    for key, item in value.items():
        node = fields.get(f"f:{key}")
        if node is None:
            left[key] = item
        elif not is_member(node):
            rest = cut(_inner(place, key), item, node)
            # Upstream leaves null where everything in a struct or list was removed.
            left[key] = None if rest is ABSENT else rest
    return left or ABSENT


def with_named(place: Spot, fields: FieldSet) -> FieldSet:
    """The set with every field of a struct in it that has something of the set below."""
    result: FieldSet = {}
    for step, node in fields.items():
        if step == SELF:
            result[step] = node
            continue
        inner = _inner(place, step[2:]) if step.startswith("f:") else Spot(place.type.element)
        children = with_named(inner, below(node))
        is_in = is_member(node) or _is_named(place, step)
        result[step] = ({SELF: {}, **children} if children else {}) if is_in else children
    return result


def mistakes_in(place: Spot, value: Any, path: str = "") -> Iterator[str]:
    """Fields that the kind does not have, and values of another shape than the kind has there, with their paths."""
    if value is None or place.type.base == "any":
        return
    shape = place.type.shape[:1]
    if shape == ("[]",):
        if not isinstance(value, list):
            yield f"{path}: expected list, got {_shown(value)}"
            return
        yield from _element_mistakes(place, value, path)
    elif shape or place.type.is_struct:
        if not isinstance(value, dict):
            yield f"{path}: expected map, got {_shown(value)}"
            return
        unknown = None if shape else next((key for key in value if key not in structs()[place.type.base].fields), None)
        if unknown is not None:
            # Here upstream stops. What it has read before depends on the order of a Go map: here, nothing.
            yield f"{path}.{unknown}: field not declared in schema"
            return
        for key, item in value.items():
            yield from mistakes_in(_inner(place, key), item, f"{path}.{key}")
    elif (word := _misfit(place.type.base, value)) is not None:
        yield f"{path}: expected {word}"


_NOT_IN_A_SET: Final = {
    dict: "associative list without keys has an element that's a map type",
    list: "not supported: associative list with lists as elements",
    type(None): "associative list without keys has an element that's an explicit null",
}


def _element_mistakes(place: Spot, items: list[Any], path: str) -> Iterator[str]:
    # Upstream looks no further than the first element that cannot be named.
    seen = set()
    for index, item in enumerate(items):
        if place.keys is None:
            step = f"[{index}]"
        elif place.keys and not isinstance(item, dict):
            what = "a null element" if item is None else "non-map elements"
            yield f"{path}: element {index}: associative list with keys may not have {what}"
            return
        elif place.keys and _lacks_keys(place, item):
            yield f"{path}: element {index}: {_without_keys(place)}"
            return
        elif not place.keys and (item is None or isinstance(item, dict | list)):
            yield f"{path}: element {index}: {_NOT_IN_A_SET[type(item)]}"
            return
        else:
            step = step_text(element_step(place, item))
            if step in seen:
                yield f"{path}: duplicate entries for key {step}"
            seen.add(step)
        yield from mistakes_in(Spot(place.type.element), item, path + step)


def _has_default(struct: str, key: str) -> bool:
    field = structs()[struct].fields[key]
    return field.is_always_written or struct == "LocalObjectReference" or key == "protocol"


def _misfit(base: str, value: Any) -> str | None:
    """What a scalar should be and is not."""
    if base == "string" and not isinstance(value, str):
        return f"string, got &value.valueUnstructured{{Value:{_go_syntax(value)}}}"
    if base == "bool" and not isinstance(value, bool):
        return f"boolean, got {_shown(value)}"
    if base in _NUMBERS and (isinstance(value, bool) or not isinstance(value, int | float)):
        return f"numeric (int or float), got {_GO_TYPES.get(type(value), 'nil')}"
    if base == "bytes" and not isinstance(value, str):
        return f"string, got &value.valueUnstructured{{Value:{_go_syntax(value)}}}"
    # What may be a number or a text may be anything here; its conversion fails later.
    if base in (*_NUMBERS, "intOrString") or not isinstance(value, dict | list):
        return None
    return f"any scalar, got {_shown(value)}"


def _go_syntax(value: Any) -> str:
    """As Go prints a value with `%#v`."""
    if isinstance(value, dict):
        pairs = (f"{quote(key)}:{_go_syntax(value[key])}" for key in sorted(value))
        return f"map[string]interface {{}}{{{', '.join(pairs)}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(_go_syntax, value))}}}"
    if value is None:
        return "interface {}(nil)"
    return quote(value) if isinstance(value, str) else go_text(value)


def _shown(value: Any) -> str:
    """As Go prints a value that it has only a pointer to; one that is longer than a refusal should be is cut."""
    return f"&{{{go_text(value)[:_LONGEST_SHOWN]}}}"
