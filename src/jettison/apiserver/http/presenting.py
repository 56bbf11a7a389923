"""Objects and lists as bytes: straight from what is stored, unless a table or the metadata alone is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any, Final

import msgspec

from jettison.apiserver.http import forms
from jettison.apiserver.http.forms import JSON, form_of, metadata_of, not_of_this_shape
from jettison.apiserver.http.requests import Request
from jettison.apiserver.objects import tables
from jettison.apiserver.objects.ownership.records import Entries, encoded
from jettison.apiserver.objects.resources import NEW_EVENTS, Resource, shown_event
from jettison.apiserver.storage.stored import Stored
from jettison.apiserver.verbs.listing import Page
from jettison.values import frozen

Json = dict[str, Any]
encode = msgspec.json.Encoder().encode
_ROWS_AT_ONCE: Final = 100
# How a list ends, and a table.
_END: Final = b"]}"


@frozen
class Response:
    """An answer that is no stream. A list has the stored bodies as its `parts`: most are not copied for each client.

    A list is drawn later (`draw` gives its parts), when its user has its turn: a hundred clients of one user that wait
    for the same version would otherwise have a hundred drawings at once.
    """

    code: int
    body: bytes
    content_type: str = JSON
    headers: Sequence[tuple[bytes, bytes]] = field(default=())
    parts: Sequence[bytes] = field(default=())
    draw: Callable[[], Sequence[bytes]] | None = None

    def drawn(self) -> Response:
        """With its content."""
        if self.draw is None:
            return self
        first, *rest = self.draw()
        return replace(self, body=first, parts=rest, draw=None)

    @property
    def size(self) -> int:
        """In bytes."""
        return len(self.body) + (sum(map(len, self.parts)) if self.parts else 0)

    def whole(self) -> bytes:
        """The body in one piece."""
        return b"".join((self.body, *self.parts)) if self.parts else self.body

    def pieces(self, size: int) -> Iterator[bytes]:
        """The body in pieces that are hardly larger than `size`."""
        gathered: list[bytes] = []
        room = size
        for part in (self.body, *self.parts):
            if len(part) >= size:
                yield b"".join(gathered)
                gathered, room = [], size
                yield from (part[start : start + size] for start in range(0, len(part), size))
                continue
            gathered.append(part)
            room -= len(part)
            if room <= 0:
                yield b"".join(gathered)
                gathered, room = [], size
        yield b"".join(gathered)


def show_object(request: Request, resource: Resource, stored: Stored, now_ns: int, code: int = 200) -> Response:
    """One object."""
    if not form_of(request).shape:
        return Response(code, document(resource, stored))
    return show_value(request, resource, stored.object, now_ns, code, managed=stored.managed)


def show_value(
    request: Request, resource: Resource, value: Json, now_ns: int, code: int = 200, managed: Entries = ()
) -> Response:
    """An object that is not stored: a dry run, or what has just been deleted."""
    value = owned(value, managed)
    if form_of(request).shape == forms.TABLE:
        metadata = {key: value["metadata"][key] for key in ("resourceVersion",) if key in value["metadata"]}
        return Response(code, _table(request, resource, [value], metadata, now_ns))
    shown = shown_event(value) if resource is NEW_EVENTS else value
    document = {"kind": resource.kind, "apiVersion": resource.api_version, **shown}
    return show_document(request, resource.group, document, code, resource.inner_annotation)


def show_document(
    request: Request, group: str, document: Json, code: int = 200, inner_annotation: str = ""
) -> Response:
    """A document without a table: a subresource with a kind of its own, or a review."""
    form = form_of(request, has_table=False)
    match form.shape:
        case forms.METADATA:
            return Response(code, encode(metadata_of(document, form.api_version, inner_annotation)))
        case forms.METADATA_LIST:
            raise not_of_this_shape(group, document["kind"], form.shape)
    return Response(code, encode(document))


def show_page(request: Request, resource: Resource, page: Page, now_ns: int) -> Response:
    """A list. An empty list of metadata is null, as in Kubernetes."""
    form = form_of(request)
    match form.shape:
        case forms.TABLE:
            tables.check_include(request.parameter("includeObject"))
            return Response(200, b"", draw=partial(_page_table, request, resource, page, now_ns))
        case forms.METADATA:
            raise not_of_this_shape(resource.group, resource.kind, form.shape)
        case forms.METADATA_LIST:
            return Response(200, b"", draw=partial(_page_metadata, form.api_version, resource, page))
    return Response(200, b"", draw=partial(_page_objects, resource, page))


def _page_objects(resource: Resource, page: Page) -> list[bytes]:
    start = encode({"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": page.metadata})
    parts: list[bytes] = []
    for item in page.items:
        parts += (b",", _item(resource, item))
    return [start[:-1] + b',"items":[', *parts[1:], _END]


def _page_table(request: Request, resource: Resource, page: Page, now_ns: int) -> list[bytes]:
    """Some rows after the others, because those of 10,000 pods are 6 MB before they are bytes."""
    include, api_version = request.parameter("includeObject"), form_of(request).api_version
    parts = [_table(request, resource, (), page.metadata, now_ns)[: -len(_END)]]
    decode = tables.row_decoder(resource, include, api_version)

    def source(item: Stored) -> tables.RowSource:
        if decode is not None:
            return decode(item.body)
        value = item.listed_object() if include == "None" else whole(item)
        return tables.row_source(resource, value, include, api_version)

    for start in range(0, len(page.items), _ROWS_AT_ONCE):
        sources = map(source, page.items[start : start + _ROWS_AT_ONCE])
        parts += (encode(tables.rows(resource, sources, now_ns))[1:-1], b",")
    return [*(parts[:-1] if page.items else parts), _END]


def _page_metadata(api_version: str, resource: Resource, page: Page) -> list[bytes]:
    items = [metadata_of(whole(item), api_version, resource.inner_annotation) for item in page.items] or None
    head = {"kind": forms.METADATA_LIST, "apiVersion": api_version, "metadata": page.metadata}
    return [encode({**head, "items": items})]


def owned(value: Json, managed: Entries) -> Json:
    """The object with the entries that say which client owns which field, to be encoded: they are bytes already."""
    if not managed:
        return value
    return {**value, "metadata": {**value["metadata"], "managedFields": msgspec.Raw(encoded(managed))}}


def whole(stored: Stored) -> Json:
    """As above, of a stored object."""
    return owned(stored.listed_object(), stored.managed)


def document(resource: Resource, stored: Stored) -> bytes:
    """One object with kind and apiVersion."""
    if resource is NEW_EVENTS:
        return encode({"kind": resource.kind, "apiVersion": resource.api_version, **shown_event(whole(stored))})
    return stored.document(resource)


def _item(resource: Resource, stored: Stored) -> bytes:
    return encode(shown_event(whole(stored))) if resource is NEW_EVENTS else stored.body


def _table(
    request: Request, resource: Resource, objects: Sequence[Json], metadata: Mapping[str, Any], now_ns: int
) -> bytes:
    drawn = tables.render(
        resource,
        objects,
        now_ns,
        metadata=metadata,
        include_object=request.parameter("includeObject"),
        api_version=form_of(request).api_version,
    )
    return encode(drawn)
