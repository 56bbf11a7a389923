"""In which form a client wants its answer: the object itself, a table, or its metadata alone; in JSON or in YAML."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from jettison.apiserver.http.requests import Request
from jettison.errors import ApiError
from jettison.values import frozen

JSON: Final = "application/json"
YAML: Final = "application/yaml"
PLAIN: Final = "text/plain; charset=utf-8"

TABLE: Final = "Table"
METADATA: Final = "PartialObjectMetadata"
METADATA_LIST: Final = "PartialObjectMetadataList"

_TEXT: Final = "text/plain"
_OFFERED: Final = (JSON, YAML, "application/vnd.kubernetes.protobuf")
_WATCHABLE: Final = (f"{JSON};stream=watch", "application/vnd.kubernetes.protobuf;stream=watch")
_VERSIONS: Final = ("v1", "v1beta1")
_CONVERSION: Final = ("as", "g", "v")
_ANYTHING: Final = "*/*"


@frozen
class Form:
    """`shape` is empty for the object as it is, else one of the three kinds above, in their own `api_version`."""

    shape: str = ""
    api_version: str = ""
    content_type: str = JSON


AS_IT_IS: Final = Form()
_WITHOUT_TABLE: Final = ("ephemeralcontainers", "resize")


def form_of(request: Request, *, has_table: bool = True) -> Form:
    """The first form of the Accept header that can be served; 406 when there is none.

    Whether a single object was asked for as a list, or a list as a single object, is found out when it is shown: a
    write has happened by then, here as in Kubernetes.
    """
    if not request.accept or request.accept == JSON:
        return AS_IT_IS
    choices = parse_accept(request.accept)
    has_table = has_table and (request.target is None or request.target.subresource not in _WITHOUT_TABLE)
    for choice in choices:
        form = _form(choice, has_table=has_table)
        if form is None:
            continue
        if request.is_watch and form.content_type != JSON:
            raise _unknown_form(_WATCHABLE)
        return form
    if any(choice.content_type or choice.name == _TEXT for choice in choices):
        raise _unknown_form(_OFFERED)
    raise _not_acceptable(request, _OFFERED)


def check_route(request: Request, *, has_text: bool = False) -> None:
    """406 for a client that takes none of our types at all; this comes before everything about the resource.

    `has_text`: the answer is a text. Surprise: a client that takes nothing else is refused by `form_of`.
    """
    offered = (_TEXT, *_OFFERED) if has_text else _OFFERED
    if request.accept and not _has_route(request.accept, offered):
        raise _not_acceptable(request, offered)


def metadata_of(value: Mapping[str, Any], api_version: str, inner_annotation: str = "") -> dict[str, Any]:
    """An object reduced to what all kinds have, without the annotation that is a field inside Kubernetes."""
    metadata = value["metadata"]
    if inner_annotation and (annotations := metadata.get("annotations")):
        kept = {key: text for key, text in annotations.items() if key != inner_annotation}
        metadata = {key: item for key, item in metadata.items() if key != "annotations"}
        metadata |= {"annotations": kept} if kept else {}
    return {"kind": METADATA, "apiVersion": api_version, "metadata": metadata}


def not_of_this_shape(group: str, kind: str, shape: str) -> ApiError:
    """406 for the metadata of one object where there is a list, or the other way round; kinds have their Go names."""
    package = "core" if kind == "Event" else group.partition(".")[0] or "core"
    found = f"a list (*{package}.{kind}List)" if shape == METADATA else f"not a list (*{package}.{kind})"
    message = f"you requested {shape}, but the requested object is {found}"
    return ApiError(message, code=406, reason="NotAcceptable")


def wants_yaml(request: Request, *, is_refusal: bool) -> bool:
    """Whether the answer is to be YAML; a refusal has one shape only, and a client that wants another gets JSON."""
    if YAML not in request.accept.lower() or (request.target is None and not request.is_unknown):
        return False
    forms = (_form(choice, has_table=True) for choice in parse_accept(request.accept))
    fitting = (form for form in forms if form is not None and not (is_refusal and form.shape))
    return next((form.content_type == YAML for form in fitting), False)


def _form(choice: MediaType, *, has_table: bool) -> Form | None:
    content_type, stream = choice.content_type, choice.parameters.get("stream")
    if not content_type or (stream and (content_type == YAML or stream != "watch")):
        return None
    if choice.parameters.get("sv", "v1") != "v1":
        return None
    shape, group, version = (choice.parameters.get(each) for each in _CONVERSION)
    if (shape, group, version) == (None, None, None):
        return Form(content_type=content_type)
    is_known = shape in (METADATA, METADATA_LIST) or (shape == TABLE and has_table)
    if not is_known or group != "meta.k8s.io" or version not in _VERSIONS:
        return None
    return Form(str(shape), f"{group}/{version}", content_type)


def _unknown_form(known: tuple[str, ...]) -> ApiError:
    message = f"only the following media types are accepted: {', '.join(known)}"
    return ApiError(message, code=406, reason="NotAcceptable")


def _not_acceptable(request: Request, offered: tuple[str, ...]) -> ApiError:
    """In Kubernetes' words, which also offers protobuf; what the client has just asked for is left out."""
    refused = {choice.name for choice in parse_accept(request.accept)}
    listed = (*offered, *(_WATCHABLE if request.verb in ("list", "watch") else ()))
    known = ", ".join(each for each in listed if each.partition(";")[0] not in refused)
    message = f"406: Not Acceptable\n\nAvailable representations: {known}"
    return ApiError(message, code=406, reason="NotAcceptable", details={})


# Accept headers as Kubernetes reads them: names are compared letter by letter, and a quality orders only neighbours.


@frozen
class MediaType:
    """One choice of the list: `application/json;as=Table;v=v1;g=meta.k8s.io`."""

    name: str
    parameters: Mapping[str, str]
    quality: float = 1.0

    @property
    def content_type(self) -> str:
        """What we answer it with, empty if we cannot; `as=` asks for another shape, the caller looks at that."""
        return JSON if self.name in (JSON, "application/*", _ANYTHING) else YAML if self.name == YAML else ""

    def goes_before(self, other: MediaType) -> bool:
        """No order in the strict sense: of two that differ in quality and in wildcards, each may go before the other.

        What comes of it depends on how it is sorted, see `parse_accept`.
        """
        (kind, part), (other_kind, other_part) = self.name.split("/"), other.name.split("/")
        return (
            self.quality > other.quality or (kind != "*" and other_kind == "*") or (part != "*" and other_part == "*")
        )


# A client sends the same few headers all the time; hostile ones are cut by the limit on headers.
@lru_cache(maxsize=256)
def parse_accept(header: str) -> tuple[MediaType, ...]:
    """Every choice that is well formed, the best first. No header at all means anything."""
    if not header:
        return (MediaType(_ANYTHING, MappingProxyType({})),)
    choices: list[MediaType] = []
    for part in header.split(","):
        choice = _choice(part.strip(" "))
        if choice is None:
            continue
        # Insertion from the right, as Go sorts up to 12 elements.
        at = len(choices)
        while at and choice.goes_before(choices[at - 1]):
            at -= 1
        choices.insert(at, choice)
    return tuple(choices)


def _choice(text: str) -> MediaType | None:
    """None for what is no media type. A parameter without a value does not count."""
    head, *rest = text.split(";")
    kind, *parts = (each.strip(" ") for each in head.split("/"))
    if parts in ([], [""]):
        parts = ["*"] if kind == "*" else []
    if len(parts) != 1:
        return None
    pairs = (each.split("=") for each in rest)
    parameters = {pair[0].strip(" "): pair[1] for pair in pairs if len(pair) == 2 and pair[1]}
    quality = parameters.pop("q", "1")
    known = {key: value.strip(" ") for key, value in parameters.items()}
    return MediaType(f"{kind}/{parts[0]}", MappingProxyType(known), _quality(quality))


def _quality(text: str) -> float:
    """What is no number is worth nothing."""
    try:
        return float(text)
    except ValueError:
        return 0.0


@lru_cache(maxsize=256)
def _has_route(header: str, offered: tuple[str, ...]) -> bool:
    """Whether a choice names one of our types. This is asked first, and `application/*` is none of them."""
    names = (part.partition(";")[0].strip(" ") for part in header.split(","))
    return any(name == _ANYTHING or name in offered for name in names)
