"""What keeps a pod to certain nodes, as plain JSON: taints and tolerations, nodeSelector and node affinity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jettison.engine.labels.requirements import Operator, Requirement, require
from jettison.engine.scheduling.placement import NAME_FIELD, NodeAffinity, NodeTerm, Preference, Taint, Toleration
from jettison.errors import InputError, kind_in_words

_OPERATORS = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
    "Gt": Operator.GREATER_THAN,
    "Lt": Operator.LESS_THAN,
}
_FIELD_OPERATORS = {"In": Operator.IN, "NotIn": Operator.NOT_IN}


def taints_from(node: Mapping[str, Any]) -> tuple[Taint, ...]:
    """All of them, in the node's order."""
    taints = (node.get("spec") or {}).get("taints") or ()
    return tuple(Taint(each.get("key") or "", each.get("value") or "", each.get("effect") or "") for each in taints)


def tolerations_from(spec: Mapping[str, Any]) -> tuple[Toleration, ...]:
    """Of the spec of a pod or of a template."""
    return tuple(
        Toleration(
            each.get("key") or "",
            each.get("operator") or "",
            each.get("value") or "",
            each.get("effect") or "",
            each.get("tolerationSeconds"),
        )
        for each in spec.get("tolerations") or ()
    )


def matches_node(spec: Mapping[str, object], labels: Mapping[str, str], name: str = "") -> bool:
    """Was the pod made for this node? Terms are alternatives, the expressions of one must all hold."""
    return node_affinity_from(spec).admits(labels, name)


def node_affinity_from(spec: Mapping[str, object]) -> NodeAffinity:
    """What a pod's spec asks of its node; an InputError where that makes no sense."""
    selector = spec.get("nodeSelector")
    affinity = _path(spec, "affinity", "nodeAffinity")
    terms = _path(affinity, "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    wishes = _path(affinity, "preferredDuringSchedulingIgnoredDuringExecution")
    return NodeAffinity(
        selector=_pairs(selector) if isinstance(selector, Mapping) else (),
        required=tuple(map(_term, _objects(terms))) if isinstance(terms, list) else None,
        preferred=tuple(map(_preference, _objects(wishes))),
    )


def _pairs(selector: Mapping[object, object]) -> tuple[tuple[str, str], ...]:
    return tuple((str(key), str(value)) for key, value in selector.items())


def _path(document: object, *keys: str) -> object:
    for key in keys:
        if not isinstance(document, Mapping):
            return None
        document = document.get(key)
    return document


def _objects(values: object) -> Iterator[Mapping[str, object]]:
    return (each for each in values if isinstance(each, Mapping)) if isinstance(values, list) else iter(())


def _preference(document: Mapping[str, object]) -> Preference:
    weight, term = document.get("weight"), document.get("preference")
    return Preference(weight if isinstance(weight, int) else 0, _term(term if isinstance(term, Mapping) else {}))


def _term(term: Mapping[str, object]) -> NodeTerm:
    return NodeTerm(
        tuple(_requirement(each) for each in _list(term, "matchExpressions")),
        tuple(_name_requirement(each) for each in _list(term, "matchFields")),
    )


def _list(term: Mapping[str, object], key: str) -> list[object]:
    found = term.get(key)
    return found if isinstance(found, list) else []


def _requirement(expression: object) -> Requirement:
    key, operator, values = _parts(expression, _OPERATORS)
    return require(key, operator, values)


def _name_requirement(expression: object) -> Requirement:
    """Not checked as a label would be: a node's name may have 253 characters, a label's value only 63."""
    key, operator, values = _parts(expression, _FIELD_OPERATORS)
    if key != NAME_FIELD:
        raise InputError(f"`{key}` is not a valid field selector key, only `{NAME_FIELD}` is")
    if len(values) != 1:
        raise InputError(f"a field selector has {len(values)} values, expected one")
    return Requirement(key, operator, tuple(values))


def _parts(expression: object, operators: Mapping[str, Operator]) -> tuple[str, Operator, list[str]]:
    if not isinstance(expression, Mapping):
        raise InputError(f"a node selector term's expression is {kind_in_words(expression)}, expected a map")
    operator = operators.get(str(expression.get("operator")))
    if operator is None:
        raise InputError(f"`{expression.get('operator')}` is not a valid node selector operator")
    values = expression.get("values") or []
    if not isinstance(values, list):
        raise InputError(f"values is {kind_in_words(values)}, expected a list")
    return str(expression.get("key", "")), operator, [str(each) for each in values]
