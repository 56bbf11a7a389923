"""Where a pod may run can still be narrowed down while scheduling gates hold it: whoever lifts them knows more by then.

Only narrowed: what the pod has asked for stays, so that nobody is surprised by where it ends up.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from jettison.apiserver.objects.validation.mistakes import Mistake, invalid
from jettison.apiserver.objects.validation.pod_difference import term_value

Json = dict[str, Any]

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_TERMS: Final = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"


def validate_narrowing(spec: Json, former: Json) -> Iterator[Mistake]:
    """The node selector and the terms of the node affinity may grow. What a pod merely prefers may change at will."""
    selector = spec.get("nodeSelector")
    if any((selector or {}).get(key) != value for key, value in (former.get("nodeSelector") or {}).items()):
        why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        yield invalid("spec.nodeSelector", selector, why)
    terms, before = _terms(spec), _terms(former)
    if not before:
        return
    if len(terms or ()) != len(before):
        shown = None if terms is None else [term_value(each) for each in terms]
        yield invalid(_TERMS, shown, "no additions/deletions to non-empty NodeSelectorTerms list are allowed")
        return
    for index, (term, old) in enumerate(zip(terms or (), before, strict=True)):
        if not _only_grows(term, old):
            why = "only additions are allowed (no mutations or deletions)"
            yield invalid(f"{_TERMS}[{index}]", term_value(term), why)


def restored_affinity(spec: Json, former: Json) -> Json | None:
    """The affinity with its part about nodes set back to what it was; pods must be near the same pods for ever."""
    affinity, old = spec.get("affinity"), former.get("affinity")
    before = (old or {}).get("nodeAffinity")
    if (affinity or {}).get("nodeAffinity") == before:
        return affinity
    others = {key: value for key, value in (affinity or {}).items() if key != "nodeAffinity"}
    if before is not None:
        return {**others, "nodeAffinity": before}
    return others if others or old is not None else None


def _terms(spec: Json) -> list[Json] | None:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms: list[Json] | None = (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms")
    return terms


def _only_grows(term: Json, old: Json) -> bool:
    """A term that asks for nothing fits no node; something in it would make it fit some."""
    pairs = [(term.get(key) or [], old.get(key) or []) for key in ("matchExpressions", "matchFields")]
    if not any(before for _, before in pairs):
        return not any(now for now, _ in pairs)
    return all(now[: len(before)] == before for now, before in pairs)
