"""From the body of a request to an object. Everything wrong with it is a 4xx in Kubernetes' words."""

from __future__ import annotations

from typing import Any, Final

from jettison.apiserver.http.requests import Request, WriteOptions, write_options
from jettison.apiserver.http.statuses import bad_request
from jettison.apiserver.http.texts import duplicate_keys, parse_json, parse_yaml, with_doubles
from jettison.apiserver.objects import protobuf
from jettison.apiserver.objects.resources import RESOURCES
from jettison.apiserver.objects.schema import found_kind, read_document
from jettison.engine.numbers.strconv import quote
from jettison.errors import ApiError, InputError
from jettison.manifests.files.kinds import structs
from jettison.values import frozen

Json = dict[str, Any]

JSON: Final = "application/json"
YAML: Final = "application/yaml"
_ACCEPTED: Final = (JSON, YAML, protobuf.CONTENT_TYPE)
# Versions that are no longer served but whose kinds the decoder still knows.
_FORMER: Final = frozenset({("policy/v1beta1", "PodDisruptionBudget"), ("policy/v1beta1", "Eviction")})
# Kinds that every version has: what goes with a request, and what a watch consists of.
_EVERYWHERE: Final = (
    *("CreateOptions", "DeleteOptions", "GetOptions", "ListOptions", "PatchOptions", "UpdateOptions", "WatchEvent"),
)
_KNOWN: Final = frozenset(
    {
        *((each.api_version, each.kind) for each in RESOURCES),
        *(
            (part.group and f"{part.group}/{part.version}", part.kind)
            for each in RESOURCES
            for part in each.subresources
        ),
        *((each.api_version, f"{each.kind}List") for each in RESOURCES if "list" in each.verbs),
        *((each.api_version, kind) for each in RESOURCES for kind in _EVERYWHERE),
        *_FORMER,
        ("v1", "List"),
        ("v1", "Status"),
    }
)
_STRUCTS: Final = {
    (api_version, kind): next(
        (each.struct for each in RESOURCES if (each.api_version, each.kind) == (api_version, kind)), kind
    )
    for api_version, kind in _KNOWN
}
# As upstream: each of them may become a header, and a body has room for half a million.
_MOST_MISTAKES: Final = 100
_LONGEST_SUMMARY: Final = 30
_KIND_FIELDS: Final = ("apiVersion", "kind")
_NO_KIND: Final = "couldn't get version/kind; json parse error: "
_KIND_STRUCT: Final = (
    r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
)
_SCHEME: Final = 'in scheme "pkg/api/legacyscheme/scheme.go:30"'


@frozen
class Expected:
    """What a path takes: a kind, and the versions in which it may come; the first is the one assumed."""

    kind: str
    api_versions: tuple[str, ...]
    # The name under which `schema` knows its fields.
    fields: str

    @property
    def internal(self) -> str:
        """The Go type that Kubernetes would convert to, for its message."""
        group = self.api_versions[0].rpartition("/")[0].partition(".")[0]
        return f"{group or 'core'}.{self.kind}"


def read_object(request: Request, expected: Expected, validation: str) -> Json:
    """The object in the body without kind and apiVersion; what it should not have becomes warnings of the request."""
    document = parse_body(request.body, request.content_type, expected)
    is_json = _media_type(request.content_type) in ("", JSON)
    duplicates = duplicate_keys(request.body, document) if is_json else []
    if duplicates:
        document = with_doubles(request.body)
    value, mistakes = check_object(document, expected, validation, duplicates)
    request.warnings += mistakes
    return value


def check_object(
    document: Any,
    expected: Expected,
    validation: str,
    duplicates: list[str] | None = None,
    *,
    is_converted: bool = False,
) -> tuple[Json, list[str]]:
    """A document that was parsed already, or put together by a patch."""
    version, kind = _check_kind(document, expected)
    try:
        value, unknown = read_document(expected.fields, document, is_converted=is_converted)
    except InputError as error:
        raise bad_request(f"{_label(version, kind, expected)}: {error}") from error
    if not duplicates and not unknown:
        return value, []
    mistakes = [f"duplicate field {quote(each)}" for each in duplicates or ()]
    mistakes += [f"unknown field {quote(each)}" for each in unknown]
    del mistakes[_MOST_MISTAKES:]
    if validation == "Strict":
        raise bad_request(f"{_label(version, kind, expected)}: strict decoding error: {', '.join(mistakes)}")
    return value, [] if validation == "Ignore" else mistakes


def parse_body(body: bytes, content_type: str, expected: Expected) -> Any:
    """What the body says, whatever it is. A missing Content-Type means JSON: the Python client sends none."""
    try:
        document = decode_body(body, content_type, expected)
        kind_of(document)
    except InputError as error:
        raise bad_request(
            f"the object provided is unrecognized (must be of type {expected.kind}): {error} ({_summary(body)})"
        ) from error
    return {} if document is None else document


def decode_body(body: bytes, content_type: str, expected: Expected) -> Any:
    """As above; what cannot be read is an InputError in Go's words."""
    media_type = _media_type(content_type)
    if media_type == YAML:
        return parse_yaml(body)
    if media_type == protobuf.CONTENT_TYPE:
        return protobuf.decode(body, expected.api_versions[0], expected.kind)
    _check_media_type(media_type)
    try:
        return parse_json(body)
    except InputError as error:
        raise InputError(f"{_NO_KIND}{error}") from error


def create_options(request: Request) -> WriteOptions:
    """Those of a POST. Whether its body is of a type that can be read is asked before; of a PUT it is asked after."""
    _check_media_type(_media_type(request.content_type))
    return write_options(request, "CreateOptions")


def _check_media_type(media_type: str) -> None:
    if media_type and media_type not in _ACCEPTED:
        accepted = ", ".join(_ACCEPTED)
        raise ApiError(
            f"the body of the request was in an unknown format - accepted media types include: {accepted}",
            code=415,
            reason="UnsupportedMediaType",
        )


def _media_type(content_type: str) -> str:
    return content_type if content_type == JSON else content_type.partition(";")[0].strip().lower()


def kind_of(document: Any) -> tuple[str, str]:
    """The apiVersion and kind that a document claims; either may be empty. Raises InputError for what is neither."""
    if document is None:
        return "", ""
    if not isinstance(document, dict):
        raise InputError(
            f"{_NO_KIND}json: cannot unmarshal {found_kind(document)} into Go value of type {_KIND_STRUCT}"
        )
    version, kind = document.get("apiVersion"), document.get("kind")
    if not (version is None or type(version) is str) or not (kind is None or type(kind) is str):
        # Go names the first of the two in the text.
        name = next(each for each in document if each in _KIND_FIELDS and not isinstance(document[each], str | None))
        why = f"json: cannot unmarshal {found_kind(document[name])} into Go struct field .{name} of type string"
        raise InputError(_NO_KIND + why)
    version, kind = version or "", kind or ""
    if version.count("/") > 1:
        raise InputError(f"unexpected GroupVersion string: {version}")
    # A group without a name is the core.
    return version.removeprefix("/"), kind


def _summary(body: bytes) -> str:
    """The beginning of a body; where it is no JSON object, in hexadecimal."""
    if not body:
        return "<empty>"
    start, rest = body[:_LONGEST_SUMMARY], " ..." if len(body) > _LONGEST_SUMMARY else ""
    return (start.decode("utf-8", "replace") if start.startswith(b"{") else start.hex()) + rest


def _check_kind(document: Any, expected: Expected) -> tuple[str, str]:
    try:
        version, kind = kind_of(document)
    except InputError as error:
        raise bad_request(str(error)) from error
    version = version or expected.api_versions[0]
    kind = kind or expected.kind
    if kind == expected.kind and version in expected.api_versions:
        return version, kind
    short, label = version.rpartition("/")[2], _label(version, kind, expected)
    if (version, kind) not in _KNOWN:
        raise bad_request(f"{label}: no kind {quote(kind)} is registered for version {quote(version)} {_SCHEME}")
    if (struct := _STRUCTS.get((version, kind))) is not None and struct in structs():
        try:
            read_document(struct, document)
        except InputError as error:
            raise bad_request(f"{label}: {error}") from error
    if kind == expected.kind:
        served = expected.api_versions[0]
        raise bad_request(f"the API version in the data ({version}) does not match the expected API version ({served})")
    raise bad_request(f"{label}: converting ({short}.{kind}) to ({expected.internal}): unknown conversion")


def _label(version: str, kind: str, expected: Expected) -> str:
    return f"{kind} in version {quote(version.rpartition('/')[2])} cannot be handled as a {expected.kind}"
