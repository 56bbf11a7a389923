"""Label selectors inside objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jettison.apiserver.objects.validation.metadata import validate_labels
from jettison.apiserver.objects.validation.mistakes import Mistake, forbidden, invalid, required
from jettison.engine.labels.syntax import label_key_complaints, label_value_complaints

Json = dict[str, Any]


def validate_selector(selector: Json, field: str, *, takes_any_value: bool = False) -> Iterator[Mistake]:
    """Everything wrong with it; an absent selector is for the caller to judge.

    `takes_any_value`: the values of expressions may be such as no label can have.
    """
    yield from validate_labels(selector.get("matchLabels") or {}, f"{field}.matchLabels")
    for index, each in enumerate(selector.get("matchExpressions") or ()):
        place = f"{field}.matchExpressions[{index}]"
        yield from _validate_expression(each, place, takes_any_value=takes_any_value)


def _validate_expression(expression: Json, field: str, *, takes_any_value: bool) -> Iterator[Mistake]:
    operator, values = expression["operator"], expression.get("values") or ()
    if operator in ("In", "NotIn"):
        if not values:
            yield required(f"{field}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            yield forbidden(f"{field}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    else:
        yield invalid(f"{field}.operator", operator, "not a valid selector operator")
    yield from (invalid(f"{field}.key", expression["key"], why) for why in label_key_complaints(expression["key"]))
    for index, value in enumerate(() if takes_any_value else values):
        yield from (invalid(f"{field}.values[{index}]", value, why) for why in label_value_complaints(value))
