"""Was this pod made for this node? Its nodeSelector and required node affinity, against the node's labels."""

from __future__ import annotations

from collections.abc import Mapping

from jettison.engine.label_selectors import Operator, Requirement, require
from jettison.errors import InputError

_OPERATORS = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
    "Gt": Operator.GREATER_THAN,
    "Lt": Operator.LESS_THAN,
}


def matches_node(spec: Mapping[str, object], labels: Mapping[str, str]) -> bool:
    """nodeSelector and the required node affinity; terms are alternatives, the expressions of one must all hold."""
    selector = spec.get("nodeSelector")
    if isinstance(selector, Mapping) and any(labels.get(key) != value for key, value in selector.items()):
        return False
    required = _path(spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    terms = _path(required, "nodeSelectorTerms")
    if not isinstance(terms, list):
        return True
    return any(_term_matches(term, labels) for term in terms if isinstance(term, Mapping))


def _path(document: object, *keys: str) -> object:
    for key in keys:
        if not isinstance(document, Mapping):
            return None
        document = document.get(key)
    return document


def _term_matches(term: Mapping[str, object], labels: Mapping[str, str]) -> bool:
    """A term without expressions matches nothing."""
    expressions = term.get("matchExpressions")
    if not isinstance(expressions, list) or not expressions:
        return False
    return all(_requirement(each).matches(labels) for each in expressions)


def _requirement(expression: object) -> Requirement:
    if not isinstance(expression, Mapping):
        raise InputError(f"a node selector term's expression is a {type(expression).__name__}, expected an object")
    operator = _OPERATORS.get(str(expression.get("operator")))
    if operator is None:
        raise InputError(f"`{expression.get('operator')}` is not a valid node selector operator")
    values = expression.get("values") or []
    if not isinstance(values, list):
        raise InputError(f"values is a {type(values).__name__}, expected a list")
    return require(str(expression.get("key", "")), operator, [str(each) for each in values])
