"""Selectors and labels in one cell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jettison.apiserver.objects.tables.reading import Json, part, parts, text
from jettison.engine.labels.selectors import MatchExpression, SelectorObject, select
from jettison.errors import InputError


def selector_text(workload: Json) -> str:
    """`app=web,tier in (a,b)`; empty for a selector that is empty or absent."""
    selector = part(workload, "spec.selector")
    labels = {key: value for key, value in part(selector, "matchLabels").items() if isinstance(value, str)}
    expressions = (
        MatchExpression(text(each, "key"), text(each, "operator"), tuple(_texts(each.get("values"))))
        for each in parts(selector, "matchExpressions")
    )
    try:
        return str(select(SelectorObject(labels, tuple(expressions))))
    except InputError:
        return "<invalid>"


def labels_text(labels: Mapping[str, Any]) -> str:
    """`a=1,b=2` in order of the keys."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or "<none>"


def _texts(values: object) -> list[str]:
    return [each for each in values if isinstance(each, str)] if isinstance(values, list) else []
