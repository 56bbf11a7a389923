"""Field selectors: which objects does `spec.nodeName=n1,status.phase!=Running` mean?

Simpler than label selectors (no sets, no existence), but values may be anything: a backslash escapes comma,
equals sign and backslash. A field that an object does not have counts as the empty text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from jettison.errors import InputError
from jettison.values import frozen

_OPERATOR = re.compile(r"!=|==?")
_ESCAPED: Final = str.maketrans({"\\": r"\\", ",": r"\,", "=": r"\="})


@frozen
class FieldTerm:
    """One condition on one field: it has the value, or it has any other."""

    field: str
    value: str
    is_negated: bool = False

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Does an object with these fields satisfy it?"""
        return (fields.get(self.field, "") == self.value) is not self.is_negated

    def __str__(self) -> str:
        return f"{self.field}{'!=' if self.is_negated else '='}{self.value.translate(_ESCAPED)}"


@frozen
class FieldSelector:
    """All terms must hold; without terms it selects everything."""

    terms: tuple[FieldTerm, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Does it select everything?"""
        return not self.terms

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Does it select an object with these fields?"""
        return all(term.matches(fields) for term in self.terms)

    def __str__(self) -> str:
        """The canonical text: terms in order of their text, always with a single equals sign."""
        return ",".join(map(str, self.terms))


def parse_field_selector(text: str) -> FieldSelector:
    """Read the text form. Terms are sorted as written; a bare `=` or `!=` says nothing and is dropped."""
    terms = (_read_term(term, text) for term in sorted(_split(text)) if term)
    return FieldSelector(tuple(term for term in terms if term.field or term.value))


def _split(text: str) -> Iterator[str]:
    """The pieces between commas that no backslash escapes; the escapes stay in the pieces."""
    start = 0
    is_escaped = False
    for index, char in enumerate(text):
        if is_escaped:
            is_escaped = False
        elif char == "\\":
            is_escaped = True
        elif char == ",":
            yield text[start:index]
            start = index + 1
    yield text[start:]


def _read_term(term: str, whole: str) -> FieldTerm:
    operator = _OPERATOR.search(term)
    if operator is None:
        raise InputError(f"invalid selector: '{whole}'; can't understand '{term}'")
    value = _unescape(term[operator.end() :])
    return FieldTerm(term[: operator.start()], value, is_negated=operator[0] == "!=")


def _unescape(value: str) -> str:
    plain = []
    chars = iter(value)
    for char in chars:
        if char in ",=":
            raise InputError(f"invalid field selector: unescaped character in value: {ord(char)}")
        if char == "\\":
            char = next(chars, "")
            if char not in ("\\", ",", "="):
                raise InputError(f"invalid field selector: invalid escape sequence: \\{char}")
        plain.append(char)
    return "".join(plain)
