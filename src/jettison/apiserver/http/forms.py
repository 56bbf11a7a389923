"""In which form a client wants its answer: the object itself, a table, or its metadata alone; in JSON or in YAML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from jettison.apiserver.http.requests import Request
from jettison.errors import ApiError

JSON: Final = "application/json"
YAML: Final = "application/yaml"
PLAIN: Final = "text/plain; charset=utf-8"

TABLE: Final = "Table"
METADATA: Final = "PartialObjectMetadata"
METADATA_LIST: Final = "PartialObjectMetadataList"

_OFFERED: Final = (JSON, YAML, "application/vnd.kubernetes.protobuf")
_WATCHABLE: Final = (f"{JSON};stream=watch", "application/vnd.kubernetes.protobuf;stream=watch")
_VERSIONS: Final = ("v1", "v1beta1")
_CONVERSION: Final = ("as", "g", "v")


@dataclass(frozen=True, slots=True)
class Form:
    """`shape` is empty for the object as it is, else one of the three kinds above, in their own `api_version`."""

    shape: str = ""
    api_version: str = ""
    content_type: str = JSON


AS_IT_IS: Final = Form()


def form_of(request: Request, *, has_table: bool = True) -> Form:
    """The first form of the Accept header that can be served; 406 when there is none.

    Whether a single object was asked for as a list, or a list as a single object, is found out when it is shown: a
    write has happened by then, here as in Kubernetes.
    """
    if not request.accept or request.accept == JSON:
        return AS_IT_IS
    choices = parse_accept(request.accept)
    for choice in choices:
        form = _form(choice, has_table=has_table)
        if form is None:
            continue
        if request.is_watch and form.content_type != JSON:
            raise _unknown_form(_WATCHABLE)
        return form
    if any(choice.content_type for choice in choices):
        raise _unknown_form(_OFFERED)
    raise _not_acceptable(request)


def metadata_of(value: Mapping[str, Any], api_version: str) -> dict[str, Any]:
    """An object reduced to what all kinds have."""
    return {"kind": METADATA, "apiVersion": api_version, "metadata": value["metadata"]}


def not_of_this_shape(group: str, kind: str, shape: str) -> ApiError:
    """406 for the metadata of one object where there is a list, or the other way round; kinds have their Go names."""
    package = "core" if kind == "Event" else group.partition(".")[0] or "core"
    found = f"a list (*{package}.{kind}List)" if shape == METADATA else f"not a list (*{package}.{kind})"
    message = f"you requested {shape}, but the requested object is {found}"
    return ApiError(message, code=406, reason="NotAcceptable")


def wants_yaml(request: Request, *, is_refusal: bool) -> bool:
    """Whether the answer is to be YAML; a refusal has one shape only, and a client that wants another gets JSON."""
    if YAML not in request.accept.lower() or request.target is None:
        return False
    forms = (_form(choice, has_table=True) for choice in parse_accept(request.accept))
    fitting = (form for form in forms if form is not None and not (is_refusal and form.shape))
    return next((form.content_type == YAML for form in fitting), False)


def _form(choice: MediaType, *, has_table: bool) -> Form | None:
    content_type = choice.content_type
    if not content_type or (content_type == YAML and choice.parameters.get("stream")):
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


def _not_acceptable(request: Request) -> ApiError:
    """In Kubernetes' words, which also offers protobuf; what the client has just asked for is left out."""
    refused = {choice.name for choice in parse_accept(request.accept)}
    listed = (*_OFFERED, *(_WATCHABLE if request.verb in ("list", "watch") else ()))
    known = ", ".join(each for each in listed if each.partition(";")[0] not in refused)
    message = f"406: Not Acceptable\n\nAvailable representations: {known}"
    return ApiError(message, code=406, reason="NotAcceptable", details={})


# Accept headers, as far as clients of Kubernetes use them: a list in order of preference, with parameters.


@dataclass(frozen=True, slots=True)
class MediaType:
    """One choice of the list: `application/json;as=Table;v=v1;g=meta.k8s.io`."""

    name: str
    parameters: Mapping[str, str]

    @property
    def content_type(self) -> str:
        """What we answer it with, empty if we cannot; `as=` asks for another shape, the caller looks at that."""
        return JSON if self.name in (JSON, "application/*", "*/*") else YAML if self.name == YAML else ""


# A client sends the same few headers all the time; hostile ones are cut by the limit on headers.
@lru_cache(maxsize=256)
def parse_accept(header: str) -> tuple[MediaType, ...]:
    """Every choice, in order of preference. No header at all means anything.

    Quality values are ignored: every known client of Kubernetes lists by preference.
    """
    choices = []
    for part in header.split(","):
        name, *rest = (piece.strip() for piece in part.split(";"))
        pairs = (piece.partition("=") for piece in rest)
        parameters = {key.strip().lower(): value.strip().strip('"') for key, _, value in pairs}
        if name:
            choices.append(MediaType(name.lower(), MappingProxyType(parameters)))
    return tuple(choices) or (MediaType("*/*", MappingProxyType({})),)
