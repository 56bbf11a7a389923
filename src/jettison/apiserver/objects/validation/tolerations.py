"""Tolerations of a pod, or of a template for pods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jettison.apiserver.objects.validation.mistakes import Mistake, invalid, unsupported
from jettison.apiserver.objects.validation.nodes import EFFECTS
from jettison.engine.labels.syntax import label_key_complaints, label_value_complaints

Json = dict[str, Any]


def validate_tolerations(tolerations: list[Json], field: str) -> Iterator[Mistake]:
    """All of them."""
    for index, each in enumerate(tolerations):
        yield from _validate_toleration(each, f"{field}[{index}]")


def _validate_toleration(toleration: Json, field: str) -> Iterator[Mistake]:
    key, operator, value = toleration.get("key", ""), toleration.get("operator", ""), toleration.get("value", "")
    effect = toleration.get("effect", "")
    if key:
        yield from (invalid(f"{field}.key", key, why) for why in label_key_complaints(key))
    elif operator != "Exists":
        why = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield invalid(f"{field}.operator", operator, why)
    if "tolerationSeconds" in toleration and effect != "NoExecute":
        yield invalid(f"{field}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
    if operator in ("", "Equal"):
        yield from (invalid(f"{field}.operator", value, why) for why in label_value_complaints(value))
    elif operator == "Exists":
        if value:
            yield invalid(f"{field}.operator", value, "value must be empty when `operator` is 'Exists'")
    elif operator in ("Lt", "Gt"):
        yield unsupported(f"{field}.operator", operator, ("Equal", "Exists", "Lt", "Gt"))
    else:
        yield unsupported(f"{field}.operator", operator, ("Equal", "Exists"))
    if effect and effect not in EFFECTS:
        yield unsupported(f"{field}.effect", effect, EFFECTS)
