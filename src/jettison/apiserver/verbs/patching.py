"""A patch as it came, the object it makes, and what is wrong with either: in the words that go with its media type."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from jettison.apiserver.connections.limits import MOST_BODY_BYTES
from jettison.apiserver.http.bodies import Expected, check_object
from jettison.apiserver.http.presenting import encode
from jettison.apiserver.http.requests import Request, WriteOptions
from jettison.apiserver.http.statuses import bad_request, undecodable_patch
from jettison.apiserver.http.texts import duplicate_keys, go_text, parse_json, parse_yaml
from jettison.apiserver.objects.ownership.records import Entries, documents
from jettison.apiserver.objects.ownership.tracking import unconvertible
from jettison.apiserver.objects.patches import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    PATCHERS,
    STRATEGIC_PATCH,
    left_of_strategic_patch,
)
from jettison.apiserver.objects.resources import Resource
from jettison.apiserver.objects.schema import convert_numbers, found_kind, in_go_order, read_document
from jettison.apiserver.objects.validation.mistakes import UNSAFE, invalid, refusal
from jettison.engine.numbers.strconv import INT64_MAX, INT64_MIN, quote
from jettison.errors import ApiError, InputError
from jettison.manifests.files.kinds import Struct, structs
from jettison.values import frozen

Json = dict[str, Any]

_MISMATCH: Final = re.compile(r"json: cannot unmarshal (\w+)(?: (\S+))? into Go .* of type (\S+)")
_PLACE: Final = re.compile(r"into Go struct field (\w+)\.(?:\w+\.)*(\w+) of type")
# Types that read JSON themselves in Go, and what they then take it for.
_OWN_READERS: Final = {"intOrString": "int32", "time": "string", "microtime": "string"}
_NO_BASE64: Final = "illegal base64 data"
_OPERATION: Final = "handlers.jsonPatchOp"
_NO_PATCH: Final = "Invalid JSON Patch"
_WHOLE: Final = re.compile(r"-?\d+", re.ASCII)
_ESCAPE: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\u")
_MARKS: Final = range(0xE000, 0xF900)
_BASES: Final = ("string", "bool", "int32", "int64")


def read_patch(body: bytes, media_type: str, validation: str = "") -> Any:
    """What the patch says. An apply is named YAML, of which JSON is a part."""
    if media_type == APPLY_PATCH:
        return _read_applied(body)
    wanted, shape = (list, "[]handlers.jsonPatchOp") if media_type == JSON_PATCH else (dict, "map[string]interface {}")
    if validation == "Ignore" and media_type != STRATEGIC_PATCH:
        return _read_unlooked(body, media_type)
    patch: Any = None
    try:
        patch = parse_json(body)
        if patch is not None and not isinstance(patch, wanted):
            raise InputError(f"json: cannot unmarshal {found_kind(patch)} into Go value of type {shape}")
        if isinstance(patch, list):
            _check_operations(patch)
    except InputError as error:
        raise bad_request(str(error)) if media_type == STRATEGIC_PATCH else undecodable_patch(str(error)) from error
    if patch is None and media_type == MERGE_PATCH:
        raise bad_request(_NO_PATCH)
    return wanted() if patch is None else patch


def _read_unlooked(body: bytes, media_type: str) -> Any:
    """A patch that nothing looks at beforehand: the library that applies it finds what is wrong, in words of its own.

    It takes a list for a merge patch, too, which the object is then replaced by.
    """
    try:
        patch = parse_json(body)
    except InputError as error:
        raise bad_request(_NO_PATCH if media_type == MERGE_PATCH else str(error)) from error
    if media_type == MERGE_PATCH:
        if not isinstance(patch, dict | list):
            raise bad_request(_NO_PATCH)
        return patch
    if not isinstance(patch, list | None):
        raise bad_request(f"json: cannot unmarshal {found_kind(patch)} into Go value of type jsonpatch.Patch")
    for index, each in enumerate(patch or ()):
        if not isinstance(each, dict | None):
            where = f"Patch.{index} of type jsonpatch.Operation"
            raise bad_request(f"json: cannot unmarshal {found_kind(each)} into {where}")
    return patch or []


def _read_applied(body: bytes) -> Json:
    """YAML, also where it is named otherwise; JSON is a part of it."""
    try:
        applied = parse_yaml(body)
    except InputError as error:
        raise bad_request(f"error decoding YAML: error converting YAML to JSON: {error}") from error
    if applied is not None and not isinstance(applied, dict):
        why = f"json: cannot unmarshal {found_kind(applied)} into Go value of type map[string]interface {{}}"
        raise bad_request(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {why}")
    return applied or {}


def _check_operations(patch: list[Any]) -> None:
    for operation in patch:
        if operation is None:
            continue
        if not isinstance(operation, dict):
            raise InputError(f"json: cannot unmarshal {found_kind(operation)} into Go value of type {_OPERATION}")
        for key in ("op", "path", "from"):
            if not isinstance(operation.get(key), str | None):
                found = found_kind(operation[key])
                raise InputError(
                    f"json: cannot unmarshal {found} into Go struct field jsonPatchOp.{key} of type string"
                )


def patch_mistakes(body: bytes, patch: Any, media_type: str) -> list[str]:
    """What is wrong with the patch itself and does not keep it from being applied."""
    twice = [f"duplicate field {quote(each)}" for each in duplicate_keys(body, patch)]
    if media_type != JSON_PATCH:
        return twice
    unknown = (
        f'unknown field "[{index}].{key}"'
        for index, operation in enumerate(patch or ())
        for key in operation or ()
        if key not in ("op", "path", "from", "value")
    )
    return [f"json patch {each}" for each in (*twice, *unknown)]


def check_applied_kind(resource: Resource, patch: Any) -> None:
    """What is applied must say what it is."""
    found = (patch.get("apiVersion"), patch.get("kind"))
    version, kind = (each if isinstance(each, str) else "" for each in found)
    if (version, kind) != (resource.api_version, resource.kind):
        if version.count("/") > 1:
            # What has two slashes is no version, and then Go forgets the kind, too.
            version, kind = "", ""
        group, _, short = version.rpartition("/")
        raise bad_request(f"invalid object type: {group}/{short}, Kind={kind}")


def check_applied(value: Json, patch: Json, resource: Resource, expected: Expected) -> Json:
    """The object that an apply makes."""
    document = convert_numbers(expected.fields, value)
    document |= {"apiVersion": resource.api_version, "kind": resource.kind}
    try:
        return check_object(document, expected, "Ignore", is_converted=True)[0]
    except ApiError as error:
        why = error.message.partition(f"cannot be handled as a {expected.kind}: ")[2] or error.message
        raise unconvertible(resource, patch, _conversion(why)) from error


@frozen
class Patch:
    """A patch that is no apply: what it says, and what is wrong with itself."""

    media_type: str
    content: Any
    validation: str
    own: list[str]
    most_bytes: int
    body: bytes

    def applied_to(self, shown: Json, expected: Expected, managed: Entries) -> tuple[Json, list[str]]:
        """What it makes of an object as clients see it, and the warnings about that."""

        def whole() -> Json:
            listed = {"managedFields": documents(managed)} if managed else {}
            return {**shown, "metadata": {**shown["metadata"], **listed}}

        # Few patches say which client owns which field, and to write that down takes long.
        old = whole() if b"managedFields" in self.body else shown
        merged = PATCHERS[self.media_type](old, self.content, expected.fields, self.most_bytes)

        def told() -> str:
            return _shown(self, expected, whole())

        return check_patched(
            merged, self.content, shown, self.media_type, expected, self.validation, self.own, told
        )  # fmt: skip


def patch_type(request: Request) -> str:
    """Its media type; 415 for one that is no patch. Letters count: the route is found by them."""
    media_type = request.content_type.partition(";")[0].strip()
    if media_type not in PATCHERS and media_type != APPLY_PATCH:
        raise ApiError("415: Unsupported Media Type", code=415, reason="UnsupportedMediaType", details={})
    return media_type


def patch_of(request: Request, media_type: str, options: WriteOptions) -> Patch:
    """What the body says."""
    content = read_patch(request.body, media_type, options.validation)
    own = [] if options.validation == "Ignore" else patch_mistakes(request.body, content, media_type)
    return Patch(media_type, content, options.validation, own, request.most_bytes, request.body)


def check_patched(
    merged: Any,
    patch: Any,
    old: Json,
    media_type: str,
    expected: Expected,
    validation: str,
    own: list[str],
    told: Callable[[], str],
) -> tuple[Json, list[str]]:
    """The object and the warnings about it, after the patch's `own`. Unknown fields of the old object do not count.

    A patch that makes an object invalid is refused with what `told` says of it.
    """
    is_strategic = media_type == STRATEGIC_PATCH
    if is_strategic:
        # A strategic patch cannot make an object one of another kind, and upstream looks only whether it names one.
        for key in ("kind", "apiVersion"):
            if not isinstance(found := merged.get(key), str | None):
                number = "" if isinstance(found, bool) or not isinstance(found, int | float) else f" {found}"
                why = f"json: cannot unmarshal {found_kind(found)}{number} into Go value of type string"
                raise _unfit(told(), _conversion(why))
        merged = {key: value for key, value in merged.items() if key not in ("kind", "apiVersion")}
        merged = convert_numbers(expected.fields, merged)
    try:
        if not is_strategic and _is_versionless(merged, expected):
            # Upstream reads it as the kind that it has inside, whose fields have no names in JSON.
            merged = {key: item for key, item in merged.items() if key not in ("apiVersion", "kind")}
            value: Json = {"metadata": {}}
            mistakes = [] if validation == "Ignore" else [f"unknown field {quote(key)}" for key in merged]
        else:
            warned = "Ignore" if validation == "Ignore" else "Warn"
            value, mistakes = check_object(merged, expected, warned, is_converted=is_strategic)
    except ApiError as error:
        why = error.message.partition(f"cannot be handled as a {expected.kind}: ")[2] or error.message
        raise _unfit(told(), _conversion(why) if is_strategic else why) from error
    if mistakes and value["metadata"]:
        mentioned = frozenset(_names(patch))
        kept = (each for each in read_document(expected.fields, old)[1] if each.rpartition(".")[2] not in mentioned)
        known = {f"unknown field {quote(each)}" for each in kept}
        mistakes = [each for each in mistakes if each not in known]
    if is_strategic:
        mistakes.sort()  # as upstream does here alone
    mistakes = [*own, *mistakes]
    if mistakes and validation == "Strict":
        raise _unfit(told(), f"strict decoding error: {', '.join(mistakes)}")
    return value, mistakes


def _shown(patch: Patch, expected: Expected, whole: Json) -> str:
    """What a patch makes of the whole object or, where it is strategic, the patch as Go prints it.

    Texts of the patch keep the escapes that the client wrote. A mark stands in for their backslashes meanwhile.
    """
    if patch.media_type == STRATEGIC_PATCH:
        return go_text(left_of_strategic_patch(whole, patch.content, expected.fields))
    text = patch.body.decode("utf-8", "replace")
    stored = encode(whole).decode("utf-8", "replace")
    mark = next((each for each in map(chr, _MARKS) if each not in text and each not in stored), chr(_MARKS[0]))
    # Not where the backslash is itself escaped.
    marked = _ESCAPE.sub(lambda found: f"{found[1]}{mark}u", text)
    try:
        content = read_patch(marked.encode(), patch.media_type)
        document = in_go_order(expected.fields, whole)
        patched = PATCHERS[patch.media_type](document, content, expected.fields, MOST_BODY_BYTES)
    except ApiError:
        # An escape in a path or in a key counts as what it means.
        document = in_go_order(expected.fields, whole)
        patched = PATCHERS[patch.media_type](document, patch.content, expected.fields, MOST_BODY_BYTES)
    told = encode(patched).decode("utf-8", "replace").translate(UNSAFE)
    return told.replace(mark, "\\")


def _is_versionless(merged: Any, expected: Expected) -> bool:
    if not isinstance(merged, dict) or merged.get("kind") not in (None, "", expected.kind):
        return False
    return merged.get("apiVersion") in (None, "", "/")


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


# A map, although its name does not say so.
_AMOUNTS: Final = "v1.ResourceList"


def _conversion(why: str) -> str:
    """What upstream says of a wrong type when it did not read it from JSON itself."""
    if why.startswith(_NO_BASE64):
        return f"error decoding from json: {why}"
    if (found := _MISMATCH.fullmatch(why)) is None:
        return why
    kind, number, wanted = found.groups()
    base = wanted
    if (place := _PLACE.search(why)) is not None:
        field = structs().get(place[1], Struct("")).fields.get(place[2])
        if field is not None and not wanted.startswith(("[]", "map[")):
            base = field.type.base
        if field is not None and field.type.base in _OWN_READERS and not field.type.shape:
            taken_for = _OWN_READERS[field.type.base]
            # Go names the number where it wants another one.
            shown = f"number {number}" if number and taken_for == "int32" else kind
            return f"json: cannot unmarshal {shown} into Go value of type {taken_for}"
    source = {"array": "slice", "object": "map"}.get(kind, kind)
    if kind == "number":
        is_whole = not number or (_WHOLE.fullmatch(number) and INT64_MIN <= int(number) <= INT64_MAX)
        source = "int64" if is_whole else "float64"
    if base in _BASES:
        is_convertible = kind == "number" and base != "bool" and (source, base) != ("float64", "string")
        return f"cannot convert {source} to {wanted}" if is_convertible else f"unrecognized type: {base}"
    if wanted.startswith("[]"):
        return f"cannot restore slice from {source}"
    if wanted.startswith("map[") or wanted == _AMOUNTS:
        return f"cannot restore map from {source}"
    return f"cannot restore struct from: {source}"
