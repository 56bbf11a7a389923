"""Label selectors: which objects does `app in (web,db),tier!=test` mean?

Two ways lead to a selector: a LabelSelector object (in a disruption budget, a Deployment, …) and a text (the
`labelSelector` of an API request). Order, canonical text and complaints are Kubernetes'.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Final, NamedTuple

from jettison.engine.labels.requirements import Operator, Requirement, require
from jettison.engine.labels.syntax import label_key_complaints
from jettison.engine.numbers.strconv import quote
from jettison.errors import InputError
from jettison.values import frozen

_WORD: Final = "word"
_END: Final = "end"
# A NUL ends a word or a symbol and is swallowed with it; where a token should begin it ends the text.
_TOKEN = re.compile(r"[ \t\r\n]*(?:(?P<symbol>[=!]=|[=!(),<>])|(?P<word>[^ \t\r\n=!(),<>\0]+))\0?")


_OPERATORS: Final = {
    "in": Operator.IN,
    "notin": Operator.NOT_IN,
    "=": Operator.EQUALS,
    "==": Operator.DOUBLE_EQUALS,
    "!=": Operator.NOT_EQUALS,
    ">": Operator.GREATER_THAN,
    "<": Operator.LESS_THAN,
}


_OBJECT_OPERATORS: Final = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
}


@frozen
class LabelSelector:
    """All requirements must hold. None instead of requirements is a selector that matches nothing at all."""

    requirements: tuple[Requirement, ...] | None

    @property
    def is_empty(self) -> bool:
        """Does it select everything?"""
        return self.requirements == ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Does it select an object with these labels?"""
        return self.requirements is not None and all(each.matches(labels) for each in self.requirements)

    def __str__(self) -> str:
        """The canonical text; both everything and nothing print as the empty text."""
        return ",".join(map(str, self.requirements or ()))


NOTHING: Final = LabelSelector(None)


@frozen
class MatchExpression:
    """One entry of `matchExpressions`, as it was written."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@frozen
class SelectorObject:
    """A LabelSelector object as it was written. Whether it makes sense shows when it is used: see `select`."""

    match_labels: Mapping[str, str] = field(default_factory=dict)
    match_expressions: tuple[MatchExpression, ...] = ()

    def __str__(self) -> str:
        """As Go prints the object, which is what Kubernetes puts into an event's message."""
        labels = "".join(f"{key}: {value}," for key, value in sorted(self.match_labels.items()))
        expressions = "".join(
            f"LabelSelectorRequirement{{Key:{each.key},Operator:{each.operator},Values:[{' '.join(each.values)}],}},"
            for each in self.match_expressions
        )
        return (
            f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
            f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
        )


def select(source: SelectorObject | None) -> LabelSelector:
    """The selector that an object means: absent selects nothing, empty selects all."""
    if source is None:
        return NOTHING
    requirements = [require(key, Operator.EQUALS, [value]) for key, value in source.match_labels.items()]
    for expression in source.match_expressions:
        operator = _OBJECT_OPERATORS.get(expression.operator)
        if operator is None:
            raise InputError(f"{quote(expression.operator)} is not a valid label selector operator")
        requirements.append(require(expression.key, operator, expression.values))
    return all_of(requirements)


def all_of(requirements: Iterable[Requirement]) -> LabelSelector:
    """The selector of all of them, in order of their keys.

    Go's sort keeps equal keys in the order they were given for up to twelve requirements; this one always does.
    """
    return LabelSelector(tuple(sorted(requirements, key=lambda each: each.key)))


def parse_label_selector(text: str) -> LabelSelector:
    """Read the text form. `a in ()` asks for the empty value, as `a=` does; white space only separates."""
    tokens = _Tokens(text)
    requirements: list[Requirement] = []
    if tokens.peek().kind not in (_WORD, "!", _END):
        raise InputError(f"found '{tokens.peek().text}', expected: !, identifier, or 'end of string'")
    while tokens.peek().kind != _END:
        try:
            requirements.append(_read_requirement(tokens))
        except InputError as error:
            raise InputError(f"unable to parse requirement: {error}") from error
        token = tokens.take()
        if token.kind == _END:
            break
        if token.kind != ",":
            raise InputError(f"found '{token.text}', expected: ',' or 'end of string'")
        if tokens.peek().kind not in (_WORD, "!"):
            raise InputError(f"found '{tokens.peek().text}', expected: identifier after ','")
    return all_of(requirements)


class _Token(NamedTuple):
    """`kind` is _WORD, _END or the symbol itself. `in` and `notin` are words too: `in in (in)` is fine."""

    kind: str
    text: str


class _Tokens:
    """The tokens of a selector, with a look at the next one. After the last comes _END, as often as asked."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._next = self._scan()

    def peek(self) -> _Token:
        return self._next

    def take(self) -> _Token:
        token, self._next = self._next, self._scan()
        return token

    def _scan(self) -> _Token:
        match = _TOKEN.match(self._text, self._position)
        if match is None:
            self._position = len(self._text)
            return _Token(_END, "")
        self._position = match.end()
        return _Token(match["symbol"], match["symbol"]) if match["symbol"] else _Token(_WORD, match["word"])


def _read_requirement(tokens: _Tokens) -> Requirement:
    token = tokens.take()
    is_negated = token.kind == "!"
    if is_negated:
        token = tokens.take()
    if token.kind != _WORD:
        raise InputError(f"found '{token.text}', expected: identifier")
    key = token.text
    if complaints := label_key_complaints(key):
        raise InputError(f"<nil>: Invalid value: {quote(key)}: {'; '.join(complaints)}")
    if is_negated:
        return require(key, Operator.DOES_NOT_EXIST, ())
    if tokens.peek().kind in (_END, ","):
        return require(key, Operator.EXISTS, ())
    token = tokens.take()
    operator = _OPERATORS.get(token.text)
    if operator is None:
        raise InputError(f"found '{token.text}', expected: in, notin, =, ==, !=, gt, lt")
    is_set = operator in (Operator.IN, Operator.NOT_IN)
    return require(key, operator, _read_set(tokens) if is_set else [_read_value(tokens)])


def _read_value(tokens: _Tokens) -> str:
    if tokens.peek().kind in (_END, ","):
        return ""
    token = tokens.take()
    if token.kind != _WORD:
        raise InputError(f"found '{token.text}', expected: identifier")
    return token.text


def _read_set(tokens: _Tokens) -> list[str]:
    """`(b,a,b)` as [a, b]. A comma with nothing before or behind it adds the empty value."""
    token = tokens.take()
    if token.kind != "(":
        raise InputError(f"found '{token.text}' expected: '('")
    if tokens.peek().kind not in (_WORD, ",", ")"):
        raise InputError(f"found '{tokens.peek().text}', expected: ',', ')' or identifier")
    values: set[str] = set()
    while (token := tokens.take()).kind != ")":
        follower = tokens.peek()
        if token.kind == _WORD:
            values.add(token.text)
            if follower.kind not in (",", ")"):
                raise InputError(f"found '{follower.text}', expected: ',' or ')'")
        elif token.kind == ",":
            if not values or follower.kind in (",", ")"):
                values.add("")
        else:
            raise InputError(f"found '{token.text}', expected: ',', or identifier")
    return sorted(values or {""})
