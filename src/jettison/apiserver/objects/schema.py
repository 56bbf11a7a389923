"""Documents, checked and normalised against the fields of their kind (`manifests/files/kinds.py`).

A document is read once, when it arrives. What comes out has the right type in every known field, so that no code
behind it has to check types again; it is written as Go would write it (quantities in their canonical form, times in
UTC, zero values left out), so that equal objects are equal values. Unknown fields are dropped and reported. Whether
values make sense together is not asked here: that is validation.
"""

from __future__ import annotations

import base64
import binascii
import copy
import re
from collections.abc import Callable, Collection, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

from jettison.apiserver.objects.go_times import LAYOUT, MICRO_LAYOUT, time_complaint
from jettison.engine.numbers.quantity import parse_field
from jettison.engine.numbers.strconv import INT64_MAX, INT64_MIN, quote
from jettison.errors import InputError, ManifestError
from jettison.manifests.files.kinds import Field, Type, structs
from jettison.manifests.times import parse_time, time_text

Json = dict[str, Any]

_PLAIN_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_INT32: Final = 2**31
# Structs of other groups than the core, where it has one of that name.
_GROUPED: Final = re.compile("^(EventsV1|DiscoveryV1)(?=[A-Z])")
_BITS: Final = {"int32": 32, "int64": 64}
_ZEROS: Final = {"bool": False, "bytes": "", "int32": 0, "int64": 0, "intOrString": 0, "quantity": "0", "string": ""}
_LINE_ENDS: Final = str.maketrans("", "", "\r\n")
_NO_BASE64: Final = re.compile(r"[^A-Za-z0-9+/=\r\n]")
# What bytes are made of.
_BYTE: Final = Type((), "uint8")
_NUMBERS: Final = (Type((), "int32"), Type((), "int64"), _BYTE)
# Structs that have others inside them whose fields look like their own. Go's complaints name these, too.
_INLINED: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "Probe": ("ProbeHandler", ("exec", "httpGet", "tcpSocket", "grpc")),
    "Volume": ("VolumeSource", ()),
    "EphemeralContainer": ("EphemeralContainerCommon", ()),
    **dict.fromkeys(("PersistentVolumeClaim", "DeleteOptions"), ("TypeMeta", ("kind", "apiVersion"))),
    **dict.fromkeys(
        (
            *("ConfigMapKeySelector", "ConfigMapEnvSource", "ConfigMapVolumeSource", "ConfigMapProjection"),
            *("SecretKeySelector", "SecretEnvSource", "SecretProjection"),
        ),
        ("LocalObjectReference", ("name",)),
    ),
}
_NOT_INLINED: Final = (("Volume", "name"), ("EphemeralContainer", "targetContainerName"))
_STEP: Final = re.compile(r"[^.[\]]+")
_HOUR: Final = re.compile(r"T(\d):", re.ASCII)
# Go writes the first moment of its calendar as null.
_ZERO_TIME_NS: Final = parse_time("0001-01-01T00:00:00Z")


class Notes:
    """Where the reader is, and the fields it did not know, in the order it met them.

    A value of the wrong type is noted, and the reader goes on: as in Go, a text that makes no sense where a quantity or
    a time belongs is the mistake that counts, wherever in the document it stands.
    """

    __slots__ = ("empties", "is_converted", "mismatch", "owner", "path", "unknown")

    def __init__(self, *, is_converted: bool = False) -> None:
        # What was not read as JSON is not read on either.
        self.is_converted = is_converted
        self.path: list[str] = []
        self.unknown: list[str] = []
        # Lists and maps that are there and empty, by their paths.
        self.empties: dict[str, Json | list[Any]] = {}
        self.mismatch: InputError | None = None
        # The struct that the field belongs to: Go's complaints name it.
        self.owner = ""

    def at(self, name: str) -> str:
        """The path of a field here: `spec.containers[0].name`."""
        return ".".join([*self.path, name]).replace(".[", "[")

    def note(self, value: Any, wanted: Type) -> Any:
        """A value of the wrong type, instead of which the reader has null. Only the first one counts."""
        return self.note_mistake(self.mismatch or _mismatch(value, wanted, self))

    def note_mistake(self, mistake: InputError) -> Any:
        """As above, for a mistake that is known."""
        if self.mismatch is None:
            self.mismatch = mistake
        if self.is_converted:
            raise self.mismatch
        return None


class Read(dict[str, Any]):
    """An object that was read, with the lists and maps that its document had empty.

    Go tells them from none until it writes the object down. They are left out of the object itself, where they would
    make it differ from an equal one.
    """

    __slots__ = ("empties",)

    empties: dict[str, Json | list[Any]]


class _Key(str):
    """The part of a path that is a key of a map."""

    __slots__ = ()


class _Inlined(str):
    """The part of a path that is a field of a struct inside the one that seems to have it."""

    __slots__ = ("holder",)

    holder: str


Reader = Callable[[Any, Notes], Any]


def read_document(kind: str, document: Any, *, is_converted: bool = False) -> tuple[Json, list[str]]:
    """The object without its kind and apiVersion, and the paths of fields it should not have. Raises InputError.

    `is_converted`: the document is not from JSON but from `convert_numbers`.
    """
    notes = Notes(is_converted=is_converted)
    if not isinstance(document, dict):
        raise InputError(f"json: cannot unmarshal {found_kind(document)} into Go value of type v1.{kind}")
    value: Json = _struct_reader(kind)({k: v for k, v in document.items() if k not in ("kind", "apiVersion")}, notes)
    if notes.mismatch is not None:
        raise notes.mismatch
    metadata = value.setdefault("metadata", {})
    given = document.get("metadata")
    if isinstance(given, dict) and given.get("managedFields") == []:
        # Unlike no list at all, an empty one takes the fields from their owners.
        metadata["managedFields"] = []
    if names_no_label(document):
        # A template with an empty set of labels is refused in other words than one without.
        value["spec"]["template"]["metadata"]["labels"] = {}
    if notes.empties:
        value = Read(value)
        value.empties = notes.empties
    return value, notes.unknown


def empties_of(value: Json) -> dict[str, Json | list[Any]]:
    """The lists and maps that the document of an object had empty, by their paths."""
    return value.empties if isinstance(value, Read) else {}


def as_stored(value: Json) -> Json:
    """The object as it is written down: where nothing is in a list that is always there, null is."""
    for path in empties_of(value):
        holder, key = place_of(value, path)
        if holder is not None and holder.get(key) in ([], {}):
            holder[key] = None
    return dict(value)


def with_empties(value: Json, empties: Mapping[str, Any], without: Collection[str] = ()) -> Json:
    """A copy of an object with lists and maps that its document had empty, but for fields of these names."""
    shown = copy.deepcopy(value)
    for path, empty in empties.items():
        holder, key = place_of(shown, path)
        # What is there already stays: it may have been set back to what it was.
        if holder is not None and key not in without:
            holder.setdefault(key, empty)
    return shown


def place_of(value: Any, path: str) -> tuple[Json | None, str]:
    """The struct or map that holds what is at a path, and its name there; none where the path leads nowhere."""
    *steps, key = _STEP.findall(path)
    for step in steps:
        value = value[int(step)] if isinstance(value, list) else value.get(step)
        if not isinstance(value, dict | list):
            break
    return (value if isinstance(value, dict) else None), key


def names_no_label(document: Json) -> bool:
    """Whether its template has a set of labels, and no label in it."""
    found: Any = document
    for key in ("spec", "template", "metadata", "labels"):
        found = found.get(key) if isinstance(found, dict) else None
    return bool(found == {})


def empty_struct(name: str) -> Json:
    """A struct of which nothing is known, with what is always written."""
    value: Json = _struct_reader(name)({}, Notes())
    return value


def _mismatch(value: Any, wanted: Type, notes: Notes) -> InputError:
    # Fields of structs alone: Go does not say at which index or key it is.
    fields = [each for each in notes.path if not each.startswith("[") and not isinstance(each, _Key)]
    where = ".".join(f"{each.holder}.{each}" if isinstance(each, _Inlined) else each for each in fields)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    # Go names the number only where another number would be accepted.
    is_named = is_number and (notes.is_converted or wanted in _NUMBERS)
    found = f"number {value}" if is_named else found_kind(value)
    return InputError(
        f"json: cannot unmarshal {found} into Go struct field {_GROUPED.sub('', notes.owner)}.{where} of type"
        f" {_go_name(wanted, notes.owner, fields[-1] if fields else '')}"
    )


def _go_name(wanted: Type, owner: str, field: str) -> str:
    if wanted == _BYTE:
        return wanted.base
    if wanted.shape and wanted.base == "quantity":
        return "v1.ResourceList"
    name = _named_types().get((owner, field)) or _GROUPED.sub("", wanted.base)
    return str(wanted) if name == wanted.base else str(wanted).removesuffix(wanted.base) + name


@cache
def _named_types() -> dict[tuple[str, str], str]:
    """By struct and field."""
    found, struct = {}, ""
    for line in files(__package__).joinpath("named_types.txt").read_text("ascii").splitlines():
        if line.startswith("  "):
            for name, _, kind in (each.partition(":") for each in line.split()):
                found[struct, name] = kind if "." in kind else f"v1.{kind}"
        elif line and not line.startswith("#"):
            struct = line
    return found


def in_go_order(struct: str, document: Json) -> Json:
    """The document with its fields in the order in which Go writes them, and the keys of maps sorted."""
    head: Json = {key: document[key] for key in ("kind", "apiVersion") if key in document}
    ordered: Json = _in_order(Type((), struct), {key: value for key, value in document.items() if key not in head})
    return {**head, **ordered}


def _in_order(kind: Type, value: Any) -> Any:
    if isinstance(value, list) and kind.shape:
        return [_in_order(kind.element, each) for each in value]
    if not isinstance(value, dict):
        return value
    if kind.shape:
        return {key: _in_order(kind.element, value[key]) for key in sorted(value)}
    if not kind.is_struct:
        return value
    fields = structs()[kind.base].fields
    return {key: _in_order(field.type, value[key]) for key, field in fields.items() if key in value}


def convert_numbers(struct: str, document: Json) -> Json:
    """The document with its numbers as Go makes them of what it did not read as JSON: without a look at their size.

    A number that is too large loses its high bits, and a whole one with a point is an integer.
    """
    converted: Json = _converted(Type((), struct), document)
    return converted


def _converted(kind: Type, value: Any) -> Any:
    if type(value) in (int, float) and not kind.shape and kind.base in _BITS:
        return _low_bits(value, _BITS[kind.base])
    if isinstance(value, list) and kind.shape:
        return [_converted(kind.element, each) for each in value]
    if not isinstance(value, dict):
        return value
    if kind.shape:
        return {key: _converted(kind.element, each) for key, each in value.items()}
    fields = structs()[kind.base].fields if kind.is_struct else {}
    # Fields in the order of the struct: the first mistake counts.
    known = {key: _converted(field.type, value[key]) for key, field in fields.items() if key in value}
    return {**known, **{key: each for key, each in value.items() if key not in known}}


def _low_bits(value: float, bits: int) -> float:
    if value % 1:
        return value
    # The processor has one integer for all numbers that are too large.
    number = int(value) if INT64_MIN <= value <= INT64_MAX else INT64_MIN
    span, half = 1 << bits, 1 << (bits - 1)
    return (number + half) % span - half


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
    readers: dict[str, tuple[Reader, bool, str]] = {}
    filled: list[tuple[str, Any]] = []

    def prepare() -> None:
        # Not before the first use: a struct may contain itself.
        for each in fields.values():
            is_kept = each.is_pointer or each.is_always_written or each.type.is_struct
            readers[each.name] = (_reader(each.type), is_kept, _path_part(name, each.name))
        filled.extend((each.name, _zero(each)) for each in fields.values() if each.is_always_written)

    def read(value: Any, notes: Notes) -> Any:
        if type(value) is not dict:
            return notes.note(value, Type((), name))
        if not readers:
            prepare()
        found: Json = {}
        path = notes.path
        for key, item in value.items():
            known = readers.get(key)
            if known is None:
                notes.unknown.append(notes.at(key))
            elif item is not None:
                path.append(known[2])
                notes.owner = name
                item = known[0](item, notes)
                path.pop()
                if item or known[1]:
                    found[key] = item
                if not item and (type(item) is list or type(item) is dict) and fields[key].type.shape:
                    notes.empties[notes.at(key)] = item
        for key, zero in filled:
            if key not in found:
                found[key] = zero() if callable(zero) else zero
        return found

    return read


def _path_part(struct: str, field: str) -> str:
    holder, inlined = _INLINED.get(struct, ("", ()))
    if not holder or (inlined and field not in inlined) or (struct, field) in _NOT_INLINED:
        return field
    part = _Inlined(field)
    part.holder = holder
    return part


def _zero(field: Field) -> Any:
    if field.type.is_struct:
        base = field.type.base
        return lambda: empty_struct(base)
    if field.type.shape or field.is_pointer:
        return None
    return _ZEROS.get(field.type.base)


def _reader(wanted: Type) -> Reader:
    if wanted.shape:
        return (_list_reader if wanted.shape[0] == "[]" else _map_reader)(wanted)
    if wanted.is_struct:
        return _struct_reader(wanted.base)
    return _SCALARS[wanted.base]


def _list_reader(wanted: Type) -> Reader:
    read_element = _reader(wanted.element)
    is_plain = wanted.element == Type((), "string")
    null = _null(wanted.element)

    def read(value: Any, notes: Notes) -> Any:
        if type(value) is not list:
            return notes.note(value, wanted)
        if is_plain and all(type(item) is str for item in value):
            return value
        found, owner = [], notes.owner
        for index, item in enumerate(value):
            notes.path.append(f"[{index}]")
            notes.owner = owner
            item = null if item is None else item
            found.append(None if item is None else read_element(item, notes))
            notes.path.pop()
        return found

    return read


def _null(element: Type) -> Any:
    """What Go makes of null in a list or map: a zero value. None, where that is null again."""
    if element.is_struct and not element.shape:
        return {}
    return None if element.shape else _ZEROS.get(element.base)


def _map_reader(wanted: Type) -> Reader:
    read_element = _reader(wanted.element)
    is_plain = wanted.element == Type((), "string")
    null = _null(wanted.element)

    def read(value: Any, notes: Notes) -> Any:
        if type(value) is not dict:
            return notes.note(value, wanted)
        if is_plain and all(type(item) is str for item in value.values()):
            return value
        found, owner = {}, notes.owner
        for key, item in value.items():
            notes.path.append(_Key(key))
            notes.owner = owner
            item = null if item is None else item
            found[key] = None if item is None else read_element(item, notes)
            notes.path.pop()
        return found

    return read


def _any(value: Any, notes: Notes) -> Any:
    del notes
    return value


def _string(value: Any, notes: Notes) -> Any:
    if type(value) is not str:
        return notes.note(value, Type((), "string"))
    return value


def _bool(value: Any, notes: Notes) -> Any:
    if type(value) is not bool:
        return notes.note(value, Type((), "bool"))
    return value


def _base64(value: Any, notes: Notes) -> Any:
    """Bytes; Go passes over line ends in them, and writes them without."""
    if type(value) is list:
        return _bytes_of(value, notes)
    if type(value) is not str:
        return notes.note(value, Type((), "bytes"))
    text = value.translate(_LINE_ENDS)
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return notes.note_mistake(InputError(f"illegal base64 data at input byte {_first_illegal(value)}"))
    return text


def _bytes_of(numbers: list[Any], notes: Notes) -> Any:
    """Go takes a list of numbers as well, and null for zero."""
    known = [0 if each is None else each for each in numbers]
    wrong = next((each for each in known if type(each) is not int or not 0 <= each < 256), None)
    if wrong is not None:
        return notes.note(wrong, _BYTE)
    return base64.b64encode(bytes(known)).decode()


def _first_illegal(text: str) -> int:
    """Where Go stops: a group of four that is cut off is wrong from its start."""
    # Go counts bytes.
    text = text.encode().decode("latin-1")
    places = [place for place, char in enumerate(text) if char not in "\r\n"]
    count = 0
    for number, place in enumerate(places):
        if text[place] != "=":
            if _NO_BASE64.match(text[place]):
                return place
            count = number % 4 + 1
            continue
        if number % 4 < 2:
            return place
        after = places[number + 1 :]
        if number % 4 == 2:
            if not after:
                return len(text)
            if text[after[0]] != "=":
                return after[0] - 1
            after = after[1:]
        return after[0]
    return len(text) - count


def _int32(value: Any, notes: Notes) -> Any:
    if type(value) is not int or not -_INT32 <= value < _INT32:
        return notes.note(value, Type((), "int32"))
    return value


def _int64(value: Any, notes: Notes) -> Any:
    if type(value) is not int or not INT64_MIN <= value <= INT64_MAX:
        return notes.note(value, Type((), "int64"))
    return value


def _float64(value: Any, notes: Notes) -> Any:
    if type(value) not in (int, float):
        return notes.note(value, Type((), "float64"))
    return value


def _int_or_string(value: Any, notes: Notes) -> Any:
    if type(value) is not str and (type(value) is not int or not -_INT32 <= value < _INT32):
        raise _mismatch(value, Type((), "int32"), notes)
    return value


def _quantity(value: Any, notes: Notes) -> Any:
    del notes
    if value is None:
        return "0"
    # Go reads the JSON token itself, so a bare number is fine and a list is a text that makes no sense.
    return str(parse_field(value if type(value) is str else str(value)))


def _time(value: Any, notes: Notes) -> Any:
    if type(value) is not str:
        raise _mismatch(value, Type((), "string"), notes)
    nanoseconds = _nanoseconds(value, LAYOUT)
    if nanoseconds == _ZERO_TIME_NS:
        return None
    return value if _PLAIN_TIME.fullmatch(value) else time_text(nanoseconds)


def _micro_time(value: Any, notes: Notes) -> Any:
    if type(value) is not str:
        raise _mismatch(value, Type((), "string"), notes)
    nanoseconds = _nanoseconds(value, MICRO_LAYOUT)
    if nanoseconds == _ZERO_TIME_NS:
        return None
    return f"{time_text(nanoseconds)[:-1]}.{nanoseconds % 10**9 // 1000:06d}Z"


def _nanoseconds(text: str, layout: str) -> int:
    # Where a fraction belongs, Go takes no time without one.
    why = time_complaint(text, layout) if layout == MICRO_LAYOUT else ""
    try:
        if not why:
            return parse_time(text)
    except ManifestError as error:
        why = time_complaint(text, layout)
        if not why and (strict := _HOUR.sub(r"T0\1:", text).replace(",", ".")) != text:
            # Go takes an hour of one digit and a comma.
            return _nanoseconds(strict, layout)
        raise InputError(why or f'parsing time {quote(text)} as "{layout}"') from error
    raise InputError(why)


_SCALARS: Final[dict[str, Reader]] = {
    "any": _any,
    "bool": _bool,
    "bytes": _base64,
    "float64": _float64,
    "int32": _int32,
    "int64": _int64,
    "intOrString": _int_or_string,
    "microtime": _micro_time,
    "quantity": _quantity,
    "string": _string,
    "time": _time,
}
