"""A patch as it came, the object it makes, and what is wrong with either: in the words that go with its media type."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from jettison.apiserver.http.bodies import YAML, Expected, check_object, parse_body
from jettison.apiserver.http.presenting import encode
from jettison.apiserver.http.statuses import bad_request, undecodable_patch
from jettison.apiserver.http.texts import parse_json
from jettison.apiserver.objects.patches import APPLY_PATCH, JSON_PATCH, STRATEGIC_PATCH
from jettison.apiserver.objects.schema import found_kind, read_document
from jettison.apiserver.objects.validation.mistakes import invalid, refusal
from jettison.engine.numbers.strconv import quote
from jettison.errors import ApiError, InputError

Json = dict[str, Any]

_MISMATCH: Final = re.compile(r"json: cannot unmarshal (\w+)(?: (\S+))? into Go .* of type (\S+)")
_BASES: Final = ("string", "bool", "int32", "int64")


def read_patch(body: bytes, media_type: str, expected: Expected) -> Any:
    """What the patch says. An apply is named YAML, of which JSON is a part."""
    if media_type == APPLY_PATCH:
        return parse_body(body, YAML, expected)
    wanted, shape = (list, "[]handlers.jsonPatchOp") if media_type == JSON_PATCH else (dict, "map[string]interface {}")
    try:
        patch = parse_json(body)
        if patch is not None and not isinstance(patch, wanted):
            raise InputError(f"json: cannot unmarshal {found_kind(patch)} into Go value of type {shape}")
    except InputError as error:
        raise bad_request(str(error)) if media_type == STRATEGIC_PATCH else undecodable_patch(str(error)) from error
    return patch


def check_patched(merged: Any, patch: Any, old: Json, media_type: str, expected: Expected, validation: str) -> Any:
    """The object and the warnings about it. Of unknown fields, those of the old object do not count.

    A patch that makes an object invalid is refused with the whole object or, where the patch is strategic, with the
    patch as Go prints it.
    """
    is_strategic = media_type == STRATEGIC_PATCH
    try:
        value, mistakes = check_object(merged, expected, "Ignore" if validation == "Ignore" else "Warn")
    except ApiError as error:
        why = error.message.partition(f"cannot be handled as a {expected.kind}: ")[2] or error.message
        shown = go_text(patch) if is_strategic else encode(merged).decode("utf-8", "replace")
        raise _unfit(shown, _conversion(why) if is_strategic else why) from error
    if mistakes:
        mentioned = frozenset(_names(patch))
        kept = (each for each in read_document(expected.fields, old)[1] if each.rpartition(".")[2] not in mentioned)
        known = {f"unknown field {quote(each)}" for each in kept}
        mistakes = [each for each in mistakes if each not in known]
    if is_strategic:
        # Here upstream looks at what is inside first.
        mistakes.sort(key=lambda each: -each.count("."))
    if mistakes and validation == "Strict":
        shown = go_text(patch) if is_strategic else encode(merged).decode("utf-8", "replace")
        raise _unfit(shown, f"strict decoding error: {', '.join(mistakes)}")
    return value, mistakes


def go_text(value: Any) -> str:
    """A value as Go prints it with `%+v`."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{go_text(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(go_text, value))}]"
    if value is None:
        return "<nil>"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _names(patch: Any) -> Iterator[str]:
    """Every name in it, of a field or in a path to one."""
    if isinstance(patch, dict):
        yield from patch
        yield from str(patch.get("path") or "").split("/")
        for each in patch.values():
            yield from _names(each)
    elif isinstance(patch, list):
        for each in patch:
            yield from _names(each)


def _unfit(shown: str, why: str) -> ApiError:
    return refusal("", "", "", [invalid("patch", shown, why)])


def _conversion(why: str) -> str:
    """What upstream says of a wrong type when it did not read it from JSON itself."""
    if (found := _MISMATCH.fullmatch(why)) is None:
        return why
    kind, number, wanted = found.groups()
    source = {"array": "slice", "object": "map"}.get(kind, kind)
    if kind == "number":
        source = "float64" if number and "." in number else "int64"
    if wanted in _BASES:
        is_convertible = kind == "number" and wanted != "bool"
        target = "string" if wanted == "string" else wanted
        return f"cannot convert {source} to {target}" if is_convertible else f"unrecognized type: {wanted}"
    if wanted.startswith("[]"):
        return f"cannot restore slice from {source}"
    if wanted.startswith("map["):
        return f"cannot restore map from {source}"
    return f"cannot restore struct from: {source}"
