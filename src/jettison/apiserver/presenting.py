"""Objects and lists as bytes: straight from what is stored wherever possible, as a table where one is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from jettison.apiserver import tables
from jettison.apiserver.event_forms import shown_event
from jettison.apiserver.listing import Page
from jettison.apiserver.media_types import JSON, parse_accept
from jettison.apiserver.requests import Request
from jettison.apiserver.resources import NEW_EVENTS, Resource
from jettison.apiserver.stored import Stored
from jettison.errors import ApiError

Json = dict[str, Any]
encode = msgspec.json.Encoder().encode

_REPRESENTATIONS: Final = (JSON, "application/yaml", "application/vnd.kubernetes.protobuf")
_WATCHABLE: Final = (f"{JSON};stream=watch", "application/vnd.kubernetes.protobuf;stream=watch")


@dataclass(frozen=True, slots=True)
class Response:
    """An answer with an end."""

    code: int
    body: bytes
    content_type: str = JSON
    headers: Sequence[tuple[bytes, bytes]] = field(default=())


def wants_table(request: Request, *, may_be_table: bool = True) -> bool:
    """Whether the first wish that we can fulfil is a table; 406 when there is none."""
    if not request.accept or request.accept == JSON:
        return False
    for choice in parse_accept(request.accept):
        if may_be_table and tables.is_table_request(choice):
            return True
        if choice.takes_json and not choice.parameters.get("as"):
            return False
    raise _not_acceptable(request)


def _not_acceptable(request: Request) -> ApiError:
    """In Kubernetes' words, of which only JSON is true of us; what was refused just now is not offered again."""
    refused = {choice.name for choice in parse_accept(request.accept)} - {JSON}
    listed = (*_REPRESENTATIONS, *(_WATCHABLE if request.method == "GET" else ()))
    known = ", ".join(each for each in listed if each.partition(";")[0] not in refused)
    message = f"406: Not Acceptable\n\nAvailable representations: {known}"
    return ApiError(message, code=406, reason="NotAcceptable", details={})


def show_object(request: Request, resource: Resource, stored: Stored, now_ns: int, code: int = 200) -> Response:
    """One object."""
    if wants_table(request):
        metadata = {"resourceVersion": stored.metadata["resourceVersion"]}
        return _table(request, resource, [stored], metadata, now_ns, code)
    return Response(code, document(resource, stored))


def show_value(resource: Resource, value: Json, code: int = 200) -> Response:
    """An object that is not stored: a dry run, or a part of an object that has a kind of its own."""
    return Response(code, encode({"kind": resource.kind, "apiVersion": resource.api_version, **value}))


def show_page(request: Request, resource: Resource, page: Page, now_ns: int) -> Response:
    """A list."""
    if wants_table(request):
        return _table(request, resource, page.items, page.metadata, now_ns, 200)
    head = encode({"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": page.metadata})
    items = b",".join(_item(resource, item) for item in page.items)
    return Response(200, b'%s,"items":[%s]}' % (head[:-1], items))


def document(resource: Resource, stored: Stored) -> bytes:
    """One object with kind and apiVersion."""
    if resource is NEW_EVENTS:
        return encode({"kind": resource.kind, "apiVersion": resource.api_version, **shown_event(stored.object)})
    return stored.document(resource)


def _item(resource: Resource, stored: Stored) -> bytes:
    return encode(shown_event(stored.object)) if resource is NEW_EVENTS else stored.body


def _table(
    request: Request, resource: Resource, items: Sequence[Stored], metadata: Mapping[str, Any], now_ns: int, code: int
) -> Response:
    drawn = tables.render(
        resource,
        [item.object for item in items],
        now_ns,
        metadata=metadata,
        include_object=request.parameter("includeObject"),
    )
    return Response(code, encode(drawn))
