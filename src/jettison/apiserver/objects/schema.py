"""Documents, checked and normalised against the fields of their kind (`manifests/files/kinds.py`).

A document is read once, when it arrives. What comes out has the right type in every known field, so that no code
behind it has to check types again; it is written as Go would write it (quantities in their canonical form, times in
UTC, zero values left out), so that equal objects are equal values. Unknown fields pass unchanged. Whether values make
sense together is not asked here: that is validation.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from jettison.engine.numbers.quantity import parse
from jettison.engine.numbers.strconv import INT64_MAX, INT64_MIN, quote
from jettison.errors import InputError, ManifestError
from jettison.manifests.files.kinds import Field, Type, structs
from jettison.manifests.times import parse_time, time_text

Json = dict[str, Any]

_PLAIN_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_INT32: Final = 2**31
_NUMBERS: Final = (Type((), "int32"), Type((), "int64"))
# Strings that have a type of their own in Go, as far as a person is likely to get them wrong.
_NAMED: Final = {
    ("ObjectMeta", "uid"): "types.UID",
    ("OwnerReference", "uid"): "types.UID",
    ("Preconditions", "uid"): "types.UID",
    ("DeleteOptions", "propagationPolicy"): "v1.DeletionPropagation",
    ("PodDisruptionBudgetSpec", "unhealthyPodEvictionPolicy"): "v1.UnhealthyPodEvictionPolicyType",
    ("LabelSelectorRequirement", "operator"): "v1.LabelSelectorOperator",
    ("Condition", "status"): "v1.ConditionStatus",
    ("PodSpec", "restartPolicy"): "v1.RestartPolicy",
    ("PodStatus", "phase"): "v1.PodPhase",
    ("PodCondition", "type"): "v1.PodConditionType",
    ("PodCondition", "status"): "v1.ConditionStatus",
    ("NodeCondition", "type"): "v1.NodeConditionType",
    ("NodeCondition", "status"): "v1.ConditionStatus",
    ("Taint", "effect"): "v1.TaintEffect",
    ("Toleration", "effect"): "v1.TaintEffect",
    ("Toleration", "operator"): "v1.TolerationOperator",
}
_LAYOUT: Final = '"2006-01-02T15:04:05Z07:00"'
_MICRO_LAYOUT: Final = '"2006-01-02T15:04:05.000000Z07:00"'
# Where a fraction belongs, Go takes no time without one.
_MICRO_TIME: Final = re.compile(r"[^.]*\.\d{6}[^.\d].*", re.ASCII)


class Notes:
    """Where the reader is, and the fields it did not know, in the order it met them."""

    __slots__ = ("owner", "path", "unknown")

    def __init__(self) -> None:
        self.path: list[str] = []
        self.unknown: list[str] = []
        # The struct that the field belongs to: Go's complaints name it.
        self.owner = ""

    def at(self, name: str) -> str:
        """The path of a field here: `spec.containers[0].name`."""
        return ".".join([*self.path, name]).replace(".[", "[")


class _Key(str):
    """The part of a path that is a key of a map."""

    __slots__ = ()


Reader = Callable[[Any, Notes], Any]


def read_document(kind: str, document: Any) -> tuple[Json, list[str]]:
    """The object without its kind and apiVersion, and the paths of fields it should not have. Raises InputError."""
    notes = Notes()
    if not isinstance(document, dict):
        raise InputError(f"json: cannot unmarshal {found_kind(document)} into Go value of type v1.{kind}")
    value: Json = _struct_reader(kind)({k: v for k, v in document.items() if k not in ("kind", "apiVersion")}, notes)
    value.setdefault("metadata", {})
    return value, notes.unknown


def empty_struct(name: str) -> Json:
    """A struct of which nothing is known, with what is always written."""
    value: Json = _struct_reader(name)({}, Notes())
    return value


def _mismatch(value: Any, wanted: Type, notes: Notes) -> InputError:
    # Fields of structs alone: Go does not say at which index or key it is.
    fields = [each for each in notes.path if not each.startswith("[") and not isinstance(each, _Key)]
    where = ".".join(fields)
    is_number = wanted in _NUMBERS and isinstance(value, int | float) and not isinstance(value, bool)
    # Go names the number only where another number would be accepted.
    found = f"number {value}" if is_number else found_kind(value)
    name = _NAMED.get((notes.owner, fields[-1])) if fields and not wanted.shape else None
    return InputError(
        f"json: cannot unmarshal {found} into Go struct field {notes.owner}.{where} of type {name or wanted}"
    )


def found_kind(value: Any) -> str:
    """What Go calls a JSON value that it cannot use."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


@cache
def _struct_reader(name: str) -> Reader:
    fields = structs()[name].fields
    readers: dict[str, tuple[Reader, bool]] = {}
    filled: list[tuple[str, Any]] = []

    def prepare() -> None:
        # Not before the first use: a struct may contain itself.
        for each in fields.values():
            readers[each.name] = (_reader(each.type), each.is_pointer or each.is_always_written or each.type.is_struct)
        filled.extend((each.name, _zero(each)) for each in fields.values() if each.is_always_written)

    def read(value: Any, notes: Notes) -> Any:
        if type(value) is not dict:
            raise _mismatch(value, Type((), name), notes)
        if not readers:
            prepare()
        found: Json = {}
        path = notes.path
        for key, item in value.items():
            known = readers.get(key)
            if known is None:
                notes.unknown.append(notes.at(key))
                found[key] = item
            elif item is not None:
                path.append(key)
                notes.owner = name
                item = known[0](item, notes)
                path.pop()
                if item or known[1]:
                    found[key] = item
        for key, zero in filled:
            if key not in found:
                found[key] = zero() if callable(zero) else zero
        return found

    return read


def _zero(field: Field) -> Any:
    if field.type.is_struct:
        base = field.type.base
        return lambda: empty_struct(base)
    if field.type.shape:
        return None
    return {"bool": False, "int32": 0, "int64": 0, "intOrString": 0, "quantity": "0", "string": ""}.get(field.type.base)


def _reader(wanted: Type) -> Reader:
    if wanted.shape:
        return (_list_reader if wanted.shape[0] == "[]" else _map_reader)(wanted)
    if wanted.is_struct:
        return _struct_reader(wanted.base)
    return _SCALARS[wanted.base]


def _list_reader(wanted: Type) -> Reader:
    read_element = _reader(wanted.element)
    is_plain = wanted.element == Type((), "string")
    # Go makes a zero value of null.
    null: Any = "" if is_plain else {}

    def read(value: Any, notes: Notes) -> Any:
        if type(value) is not list:
            raise _mismatch(value, wanted, notes)
        if is_plain and all(type(item) is str for item in value):
            return value
        found = []
        for index, item in enumerate(value):
            notes.path.append(f"[{index}]")
            found.append(read_element(null if item is None else item, notes))
            notes.path.pop()
        return found

    return read


def _map_reader(wanted: Type) -> Reader:
    read_element = _reader(wanted.element)
    is_plain = wanted.element == Type((), "string")

    def read(value: Any, notes: Notes) -> Any:
        if type(value) is not dict:
            raise _mismatch(value, wanted, notes)
        if is_plain and all(type(item) is str for item in value.values()):
            return value
        found = {}
        for key, item in value.items():
            notes.path.append(_Key(key))
            found[key] = "" if item is None and is_plain else read_element(item, notes)
            notes.path.pop()
        return found

    return read


def _any(value: Any, notes: Notes) -> Any:
    del notes
    return value


def _string(value: Any, notes: Notes) -> Any:
    if type(value) is not str:
        raise _mismatch(value, Type((), "string"), notes)
    return value


def _bool(value: Any, notes: Notes) -> Any:
    if type(value) is not bool:
        raise _mismatch(value, Type((), "bool"), notes)
    return value


def _int32(value: Any, notes: Notes) -> Any:
    if type(value) is not int or not -_INT32 <= value < _INT32:
        raise _mismatch(value, Type((), "int32"), notes)
    return value


def _int64(value: Any, notes: Notes) -> Any:
    if type(value) is not int or not INT64_MIN <= value <= INT64_MAX:
        raise _mismatch(value, Type((), "int64"), notes)
    return value


def _float64(value: Any, notes: Notes) -> Any:
    if type(value) not in (int, float):
        raise _mismatch(value, Type((), "float64"), notes)
    return value


def _int_or_string(value: Any, notes: Notes) -> Any:
    return value if type(value) is str else _int32(value, notes)


def _quantity(value: Any, notes: Notes) -> Any:
    del notes
    if value is None:
        return "0"
    # Go reads the JSON token itself, so a bare number is fine and a list is a text that makes no sense.
    return str(parse(value if type(value) is str else str(value)))


def _time(value: Any, notes: Notes) -> Any:
    if type(value) is not str:
        raise _mismatch(value, Type((), "string"), notes)
    return time_text(_nanoseconds(value)) if _PLAIN_TIME.fullmatch(value) is None else _checked(value)


def _micro_time(value: Any, notes: Notes) -> Any:
    if type(value) is not str:
        raise _mismatch(value, Type((), "string"), notes)
    nanoseconds = _nanoseconds(value, _MICRO_LAYOUT)
    if _MICRO_TIME.fullmatch(value) is None:
        rest = re.sub(r"^[^.Z+]*T[\d:]*", "", value)
        raise InputError(f'parsing time {quote(value)} as {_MICRO_LAYOUT}: cannot parse {quote(rest)} as ".000000"')
    return f"{time_text(nanoseconds)[:-1]}.{nanoseconds % 10**9 // 1000:06d}Z"


def _checked(text: str) -> str:
    _nanoseconds(text)
    return text


def _nanoseconds(text: str, layout: str = _LAYOUT) -> int:
    try:
        return parse_time(text)
    except ManifestError as error:
        raise InputError(f'parsing time {quote(text)} as {layout}: cannot parse {quote(text)} as "2006"') from error


_SCALARS: Final[dict[str, Reader]] = {
    "any": _any,
    "bool": _bool,
    "float64": _float64,
    "int32": _int32,
    "int64": _int64,
    "intOrString": _int_or_string,
    "microtime": _micro_time,
    "quantity": _quantity,
    "string": _string,
    "time": _time,
}
