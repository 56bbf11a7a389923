"""Files, drop-ins and flags to one `KubeletConfig`, in the kubelet's order (spec §1.3, §1.4).

Defaults, then the file, then its missing hard thresholds, then drop-ins as JSON merge patches, then flags. The order
has consequences that surprise: a drop-in that sets one hard threshold adds to the defaults, the same line in the file
replaces them; and without a file there are no hard thresholds at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jettison.engine.config.kubelet_fields import (
    API_VERSION,
    BY_FLAG,
    BY_KEY,
    DEFAULT_EVICTION_HARD,
    FIELDS,
    KIND,
    Field,
    Kind,
    KubeletConfig,
)
from jettison.engine.numbers.durations import duration_text, parse_duration
from jettison.engine.numbers.strconv import parse_int64, quote
from jettison.errors import Complaint, DurationError, InputError, PolicyError, kind_in_words
from jettison.values import frozen

Document = Mapping[str, object]

NO_HARD_THRESHOLDS = (
    "no hard thresholds: without a configuration file Kubernetes sets none, pass --eviction-hard or a file"
)


@frozen
class Source:
    """A decoded file and the name to call it by."""

    name: str
    document: object


def assemble(
    file: Source | None = None,
    drop_ins: Sequence[Source] = (),
    flags: Iterable[tuple[str, str]] = (),
) -> KubeletConfig:
    """The effective configuration, or a PolicyError with every complaint. `flags` are (name, text), in order."""
    reader = _Reader()
    values = _with_defaults({})
    if file is not None:
        values = _with_defaults(reader.read(_checked(file), file.name))
        _fill_eviction_hard(values, reader.origins)
    for drop_in in drop_ins:
        patch = _checked(drop_in)
        values = _with_defaults(reader.read(_patched(values, patch, drop_in.name), drop_in.name, patch))
    _apply_flags(values, flags, reader)
    if reader.complaints:
        raise PolicyError(sorted(reader.complaints, key=lambda each: (each.origin, each.key)))
    if values["eviction_hard"] is None:
        reader.warnings.append(NO_HARD_THRESHOLDS)
    return KubeletConfig(**values, origins=reader.origins, warnings=tuple(reader.warnings))


def to_document(config: KubeletConfig) -> dict[str, Any]:
    """The KubeletConfiguration that says the same; reading it back gives an equal configuration."""
    values = {row.attribute: getattr(config, row.attribute) for row in FIELDS}
    return {"apiVersion": API_VERSION, "kind": KIND, **_document(values)}


def merge_patch(target: object, patch: object) -> object:
    """RFC 7386: maps merge key by key, null deletes, everything else replaces."""
    if not isinstance(patch, Mapping):
        return patch
    return _merged(target if isinstance(target, Mapping) else {}, patch)


def _merged(target: Document, patch: Document) -> dict[str, object]:
    merged = dict(target)
    for key, change in patch.items():
        if change is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), change)
    return merged


def _patched(values: Mapping[str, Any], patch: Document, name: str) -> Document:
    try:
        return _merged(_document(values), patch)
    except RecursionError as error:
        raise PolicyError([Complaint("", f"the document is nested too deeply to be a {KIND}", name)]) from error


def _checked(source: Source) -> Document:
    document = source.document
    if not isinstance(document, Mapping):
        raise _not_a_configuration(source.name, document)
    for key in document:
        if not isinstance(key, str):
            raise PolicyError([Complaint("", f"the key {_shown(key)} is not a string: put it in quotes", source.name)])
    for key, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        if document.get(key) != expected:
            found = f"is {_shown(document[key])}" if key in document else "is missing"
            raise PolicyError([Complaint(key, f"{key} {found}, expected `{expected}`", source.name)])
    return document


def _not_a_configuration(name: str, found: object) -> PolicyError:
    return PolicyError([Complaint("", f"the document is {kind_in_words(found)}, expected a {KIND} object", name)])


class _Reader:
    """Reads documents field by field and collects what is wrong with them, so that all of it can be said at once."""

    def __init__(self) -> None:
        self.complaints: list[Complaint] = []
        self.warnings: list[str] = []
        self.origins: dict[str, str] = {}

    def read(self, document: Document, origin: str, touched: Document | None = None) -> dict[str, Any]:
        """Values by attribute; `touched` is the part of the document that this source itself set."""
        values: dict[str, Any] = {}
        for key, row in BY_KEY.items():
            raw = document.get(key)
            # Null is as good as nothing, but Kubernetes reads a duration of its own that is null as an empty text.
            if raw is None and not (key in document and row.kind is Kind.DURATION):
                continue
            try:
                values[row.attribute] = _from_json(row, raw)
            except InputError as error:
                self.complaints.append(Complaint(key, f"{key}: {error}", origin))
        self._note(document if touched is None else touched, origin)
        return values

    def _note(self, document: Document, origin: str) -> None:
        for key, raw in document.items():
            if key in BY_KEY:
                self.note(key, raw, origin)

    def note(self, key: str, raw: object, origin: str) -> None:
        """Remember what set `key`, entry by entry where it is a map."""
        self.origins[key] = origin
        if isinstance(raw, Mapping):
            self.origins |= {f"{key}.{entry}": origin for entry in raw if isinstance(entry, str)}


def _with_defaults(values: Mapping[str, Any]) -> dict[str, Any]:
    filled: dict[str, Any] = {row.attribute: values.get(row.attribute) for row in FIELDS}
    for row in FIELDS:
        value = filled[row.attribute]
        if value is None or (row.zero_is_unset and not value):
            filled[row.attribute] = row.default
    if filled["pod_pids_limit"] < 0:
        filled["pod_pids_limit"] = -1
    if values.get("node_status_update_frequency") and not values.get("node_status_report_frequency"):
        # Frequent updates are to be posted as often.
        filled["node_status_report_frequency"] = filled["node_status_update_frequency"]
    return filled


def _fill_eviction_hard(values: dict[str, Any], origins: dict[str, str]) -> None:
    own = values["eviction_hard"]
    if own is None or values["merge_default_eviction_settings"]:
        values["eviction_hard"] = {**DEFAULT_EVICTION_HARD, **(own or {})}
        origins |= {f"evictionHard.{key}": "default" for key in DEFAULT_EVICTION_HARD if key not in (own or {})}


def _document(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _to_json(row, values[row.attribute]) for key, row in BY_KEY.items() if values[row.attribute] is not None
    }


def _to_json(row: Field, value: Any) -> Any:
    if row.kind is Kind.DURATION:
        return duration_text(value)
    if row.kind is Kind.TEXTS:
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value


def _from_json(row: Field, raw: object) -> Any:
    if row.kind in (Kind.THRESHOLDS, Kind.PAIRS):
        return _text_map(raw)
    if row.kind is Kind.TEXTS:
        if isinstance(raw, list) and all(each is None or isinstance(each, str) for each in raw):
            return tuple([each or "" for each in raw])
        raise InputError(f"is {_shown(raw)}, expected a list of strings")
    if row.kind is Kind.DURATION:
        if raw is not None and not isinstance(raw, str):
            raise InputError(f"is {_shown(raw)}, expected a duration such as `5m`")
        return parse_duration(raw or "")
    if row.kind is Kind.BOOL:
        if isinstance(raw, bool):
            return raw
        raise InputError(f"is {_shown(raw)}, expected true or false")
    if row.kind is Kind.TEXT:
        if isinstance(raw, str):
            return raw
        raise InputError(f"is {_shown(raw)}, expected a string")
    return _integer(row, raw)


def _integer(row: Field, raw: object) -> int:
    limit = 2**31 if row.kind is Kind.INT32 else 2**63
    if isinstance(raw, bool) or not isinstance(raw, int) or not -limit <= raw < limit:
        raise InputError(f"is {_shown(raw)}, expected a whole number from {-limit} to {limit - 1}")
    return raw


def _text_map(raw: object) -> dict[str, str]:
    if not isinstance(raw, Mapping):
        raise InputError(f"is {_shown(raw)}, expected a map")
    for name, text in raw.items():
        if not isinstance(name, str):
            raise InputError(f"the key {_shown(name)} is not a string: put it in quotes")
        if text is not None and not isinstance(text, str):
            raise InputError(f"`{name}` is {_shown(text)}, expected a string: put it in quotes")
    return {name: text or "" for name, text in raw.items()}


def _shown(raw: object) -> str:
    try:
        text = repr(raw)
    except (RecursionError, ValueError):  # nested a thousand times, or an integer of more than 4300 digits
        return f"{kind_in_words(raw)} that is too large to show"
    return f"`{text}`" if len(text) <= 60 else f"{kind_in_words(raw)} of {len(text)} characters"


def _apply_flags(values: dict[str, Any], flags: Iterable[tuple[str, str]], reader: _Reader) -> None:
    seen: set[str] = set()
    for name, text in flags:
        flag = name.lstrip("-").replace("_", "-")
        row = BY_FLAG.get(flag)
        if row is None:
            reader.complaints.append(Complaint(flag, f"unknown flag: --{flag}", "flags"))
            continue
        try:
            value = _from_flag(row, text)
        except (InputError, DurationError) as error:
            said = f'invalid argument {quote(text)} for "--{flag}" flag: {error}'
            reader.complaints.append(Complaint(row.key or flag, said, f"--{flag}"))
            continue
        if isinstance(value, dict) and row.attribute in seen:
            value = {**values[row.attribute], **value}
        elif isinstance(value, tuple) and row.attribute in seen:
            value = values[row.attribute] + value
        seen.add(row.attribute)
        values[row.attribute] = value
        reader.note(row.key or flag, value, f"--{flag}")


def _from_flag(row: Field, text: str) -> Any:
    if row.kind in (Kind.THRESHOLDS, Kind.PAIRS):
        return _pairs(text, "<" if row.kind is Kind.THRESHOLDS else "=")
    if row.kind is Kind.TEXTS:
        return tuple(text.split(",")) if text else ()
    if row.kind is Kind.DURATION:
        return parse_duration(text)
    if row.kind is Kind.BOOL:
        return _flag_bool(text)
    if row.kind is Kind.TEXT:
        return text
    number = parse_int64(text)
    if number is None:
        raise InputError(f"strconv.ParseInt: parsing {quote(text)}: invalid syntax")
    return _integer(row, number)


def _pairs(text: str, separator: str) -> dict[str, str]:
    found = {}
    for piece in text.split(","):
        if not piece:
            continue
        key, found_separator, value = piece.partition(separator)
        if not found_separator:
            raise InputError(f"malformed pair, expect string{separator}string")
        found[key.strip()] = value.strip()
    return found


def _flag_bool(text: str) -> bool:
    if text in ("1", "t", "T", "true", "TRUE", "True"):
        return True
    if text in ("0", "f", "F", "false", "FALSE", "False"):
        return False
    raise InputError(f"strconv.ParseBool: parsing {quote(text)}: invalid syntax")
