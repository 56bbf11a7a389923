"""Objects as the rows that `kubectl get` prints. The server draws the table: kubectl alone knows only NAME and AGE.

Here live columns and cells, one function per resource, from plain objects and the time. Nothing in here looks into the
store or refuses anything but a wrong `includeObject`; an object with nonsense in it is drawn with empty cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from jettison.apiserver.http.forms import TABLE, metadata_of
from jettison.apiserver.http.statuses import bad_request
from jettison.apiserver.objects.resources import Resource
from jettison.apiserver.objects.tables.printers import PLAIN, PRINTERS
from jettison.engine.numbers.strconv import quote

_GROUP_VERSION = "meta.k8s.io/v1"


def check_include(include_object: str) -> None:
    """400 for any other value."""
    if include_object not in ("", "Metadata", "Object", "None"):
        raise bad_request(
            f"Unable to convert to Table as requested: includeObject: Invalid value: {quote(include_object)}:"
            " must be 'Metadata', 'Object', 'None', or empty"
        )


def render(
    resource: Resource,
    objects: Iterable[Mapping[str, Any]],
    now_ns: int,
    *,
    metadata: Mapping[str, Any],
    include_object: str = "",
    has_columns: bool = True,
    api_version: str = _GROUP_VERSION,
) -> dict[str, Any]:
    """A table. In a watch only the first one has columns; later events carry rows alone."""
    check_include(include_object)
    printer = PRINTERS.get(resource.qualified, PLAIN)
    rows = [
        {"cells": printer.cells(each, now_ns), "object": _row_object(resource, each, include_object, api_version)}
        for each in objects
    ]
    columns = _columns(printer.columns) if has_columns else None
    head = {"kind": TABLE, "apiVersion": api_version, "metadata": dict(metadata)}
    return {**head, "columnDefinitions": columns, "rows": rows}


def _row_object(
    resource: Resource, value: Mapping[str, Any], include_object: str, api_version: str
) -> dict[str, Any] | None:
    if include_object == "None":
        return None
    if include_object == "Object":
        return {"kind": resource.kind, "apiVersion": resource.api_version, **value}
    return metadata_of(value, api_version)


@cache
def _columns(texts: tuple[str, ...]) -> list[dict[str, Any]]:
    return [_column(each) for each in texts]


def _column(text: str) -> dict[str, Any]:
    name, _, kind = text.removesuffix("*").partition(":")
    return {
        "name": name,
        "type": kind or "string",
        "format": "name" if name == "Name" else "",
        "description": "",
        "priority": int(text.endswith("*")),
    }
