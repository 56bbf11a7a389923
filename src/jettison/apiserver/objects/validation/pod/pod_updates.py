"""What may change in a pod's spec, and how Kubernetes shows what must not: Go values as JSON, compared line by line."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from jettison.apiserver.objects.schema import with_empties
from jettison.apiserver.objects.validation.go_values import go_value, spec_value
from jettison.apiserver.objects.validation.mistakes import Mistake, invalid

Json = dict[str, Any]

# What may change is shown as it was. Init containers are put together again, so that an empty list of them is none.
_RESTORED: Final = ("schedulingGates", "tolerations", "initContainers")


def spec_difference(old: Json, new: Json, empties: Mapping[str, Any]) -> str:
    """A unified difference with three lines around each change, as `diff -u` has it, without the names of files.

    `empties` are the lists and maps that the new one has as well, by their paths.
    """
    shown = with_empties({"spec": new}, empties, _RESTORED)
    return _difference(spec_value(old), spec_value(shown["spec"]))


def ephemeral_difference(old: Json, new: Json) -> str:
    """As above, for one container that was added for debugging."""
    return _difference(go_value("EphemeralContainer", old), go_value("EphemeralContainer", new))


def _difference(old: Json, new: Json) -> str:
    lines = difflib.unified_diff(_lines(old), _lines(new), n=3, lineterm="")
    return "".join(f"{line}\n" for line in list(lines)[2:])


def _lines(value: Json) -> list[str]:
    return json.dumps(value, indent=1, ensure_ascii=False).split("\n")


# While scheduling gates hold a pod, where it may run can be narrowed down, and only narrowed: what it asked for stays.
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
        shown = None if terms is None else [go_value("NodeSelectorTerm", each) for each in terms]
        yield invalid(_TERMS, shown, "no additions/deletions to non-empty NodeSelectorTerms list are allowed")
        return
    for index, (term, old) in enumerate(zip(terms or (), before, strict=True)):
        if not _only_grows(term, old):
            why = "only additions are allowed (no mutations or deletions)"
            yield invalid(f"{_TERMS}[{index}]", go_value("NodeSelectorTerm", term), why)


def restored_affinity(spec: Json, former: Json) -> Json | None:
    """The affinity with its part about nodes set back to what it was; the part about other pods is immutable."""
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
