"""From the body of a request to an object. Everything wrong with it is a 4xx in Kubernetes' words."""

from __future__ import annotations

import re
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
_FORMER: Final = {
    "apps/v1beta1": "ControllerRevision Deployment Scale StatefulSet",
    "apps/v1beta2": "ControllerRevision DaemonSet Deployment ReplicaSet Scale StatefulSet",
    "authentication.k8s.io/v1alpha1": "SelfSubjectReview",
    "authentication.k8s.io/v1beta1": "SelfSubjectReview TokenReview",
    "authorization.k8s.io/v1beta1": (
        "LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview"
    ),
    "coordination.k8s.io/v1beta1": "Lease",
    "discovery.k8s.io/v1beta1": "EndpointSlice",
    "events.k8s.io/v1beta1": "Event",
    "extensions/v1beta1": "DaemonSet Deployment ReplicaSet Scale",
    "node.k8s.io/v1alpha1": "RuntimeClass",
    "node.k8s.io/v1beta1": "RuntimeClass",
    "policy/v1beta1": "Eviction PodDisruptionBudget",
    "scheduling.k8s.io/v1beta1": "PriorityClass",
}
# Kinds that every version has: what goes with a request, and what a watch consists of.
_EVERYWHERE: Final = (
    *("CreateOptions", "DeleteOptions", "GetOptions", "ListOptions", "PatchOptions", "UpdateOptions", "WatchEvent"),
)
_KNOWN: Final = frozenset(
    {
        *((each.api_version, each.kind) for each in RESOURCES),
        *(
            (f"{part.group}/{part.version}" if part.group else each.api_version, part.kind)
            for each in RESOURCES
            for part in each.subresources
        ),
        *((each.api_version, f"{each.kind}List") for each in RESOURCES if "list" in each.verbs),
        *((each.api_version, kind) for each in RESOURCES for kind in _EVERYWHERE),
        *((version, kind) for version, kinds in _FORMER.items() for kind in kinds.split()),
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
_KIND_FIELDS: Final = {"apiversion": "apiVersion", "kind": "kind"}
# What may follow the name of a media type: parameters, of which none may be broken.
_PARAMETERS: Final = re.compile(
    r"""(?:\s*;\s*[\w!#$%&'*+.^`|~-]+\s*=\s*(?:[\w!#$%&'*+.^`|~-]+|"(?:[^"\\]|\\.)*"))*\s*;?\s*""", re.ASCII
)
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
    # What is converted is of the kind already; `Kind` in it is an unknown field, as names count in one case alone then.
    version, kind = (expected.api_versions[0], expected.kind) if is_converted else _check_kind(document, expected)
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
    """Without parameters; a type with broken ones is left as it is, and so is none that is known."""
    if content_type == JSON:
        return content_type
    name, _, rest = content_type.partition(";")
    return name.strip().lower() if _PARAMETERS.fullmatch(f";{rest}") else content_type


def kind_of(document: Any) -> tuple[str, str]:
    """The apiVersion and kind that a document claims; either may be empty. Raises InputError for what is neither."""
    if document is None:
        return "", ""
    if not isinstance(document, dict):
        raise InputError(
            f"{_NO_KIND}json: cannot unmarshal {found_kind(document)} into Go value of type {_KIND_STRUCT}"
        )
    found: dict[str, str] = {}
    for key, value in document.items():
        # Go looks for these two in any case, and the last one counts.
        name = _KIND_FIELDS.get(key.lower())
        if name is None or value is None:
            continue
        if type(value) is not str:
            why = f"json: cannot unmarshal {found_kind(value)} into Go struct field .{name} of type string"
            raise InputError(_NO_KIND + why)
        found[name] = value
    version, kind = found.get("apiVersion", ""), found.get("kind", "")
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
