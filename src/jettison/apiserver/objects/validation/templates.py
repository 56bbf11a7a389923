"""Templates for pods, and whether a selector takes what is made from them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jettison.apiserver.objects.validation.metadata import validate_annotations, validate_labels
from jettison.apiserver.objects.validation.mistakes import Mistake
from jettison.apiserver.objects.validation.pods import validate_pod_spec
from jettison.engine.labels.selectors import MatchExpression, SelectorObject, select

Json = dict[str, Any]


def validate_template(template: Json, field: str, times: int = 1) -> Iterator[Mistake]:
    """Kubernetes says `template.labels`, though they are in its metadata; of a StatefulSet it says so twice."""
    labels, annotations = template["metadata"].get("labels") or {}, template["metadata"].get("annotations") or {}
    for number in range(times):
        yield from validate_labels(labels, f"{field}.labels")
        yield from validate_annotations(annotations, f"{field}.annotations")
        if number == 0:
            yield from validate_pod_spec(template["spec"], f"{field}.spec")


def selects(selector: Json | None, labels: dict[str, str]) -> bool:
    """Whether a selector takes these labels; none takes nothing. InputError for one that makes no sense."""
    if selector is None:
        return False
    expressions = (
        MatchExpression(each["key"], each["operator"], tuple(each.get("values") or ()))
        for each in selector.get("matchExpressions") or ()
    )
    return select(SelectorObject(selector.get("matchLabels") or {}, tuple(expressions))).matches(labels)


def sorted_labels(labels: dict[str, str] | None) -> dict[str, str] | None:
    """As a complaint shows them."""
    return None if labels is None else dict(sorted(labels.items()))
