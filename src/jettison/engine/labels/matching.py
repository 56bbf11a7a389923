"""Selectors made ready for many objects: a look at an object takes as long as it has labels, however long the selector.

Clients choose their selectors. One of 10,000 requirements, tried one after the other on 1,000 pods, takes 12 s.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from jettison.engine.labels.field_selectors import FieldSelector
from jettison.engine.labels.requirements import Operator, Requirement
from jettison.engine.labels.selectors import LabelSelector
from jettison.engine.numbers.strconv import parse_int64

_WANTED: Final = (Operator.IN, Operator.EQUALS, Operator.DOUBLE_EQUALS)
_UNWANTED: Final = (Operator.NOT_IN, Operator.NOT_EQUALS)
_COMPARED: Final = (Operator.GREATER_THAN, Operator.LESS_THAN)


class LabelMatcher:
    """Answers as `LabelSelector.matches`."""

    __slots__ = ("_above", "_absent", "_below", "_is_nothing", "_present", "_unwanted", "_wanted")

    def __init__(self, selector: LabelSelector) -> None:
        known = selector.requirements or ()
        self._is_nothing = selector.requirements is None
        self._absent = frozenset(each.key for each in known if each.operator is Operator.DOES_NOT_EXIST)
        negations = (Operator.DOES_NOT_EXIST, *_UNWANTED)
        self._present = frozenset(each.key for each in known if each.operator not in negations)
        self._wanted = _sets((each for each in known if each.operator in _WANTED), is_common=True)
        self._unwanted = _sets((each for each in known if each.operator in _UNWANTED), is_common=False)
        self._above: dict[str, int] = {}
        self._below: dict[str, int] = {}
        for each in known:
            if each.operator in _COMPARED and (bound := parse_int64(each.values[0])) is not None:
                if each.operator is Operator.GREATER_THAN:
                    self._above[each.key] = max(bound, self._above.get(each.key, bound))
                else:
                    self._below[each.key] = min(bound, self._below.get(each.key, bound))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Does it select an object with these labels?"""
        # What must be there comes first: the rest is then at most as long as the labels.
        if self._is_nothing or not self._present <= labels.keys() or not self._absent.isdisjoint(labels):
            return False
        if any(labels[key] not in values for key, values in self._wanted.items()):
            return False
        if self._unwanted and any(value in self._unwanted.get(key, ()) for key, value in labels.items()):
            return False
        return self._compares(labels)

    def _compares(self, labels: Mapping[str, str]) -> bool:
        for bounds, sign in ((self._above, 1), (self._below, -1)):
            for key, bound in bounds.items():
                number = parse_int64(labels[key])
                if number is None or sign * number <= sign * bound:
                    return False
        return True


def _sets(requirements: Iterable[Requirement], *, is_common: bool) -> dict[str, frozenset[str]]:
    """Values by key: those that all requirements of the key name, or those that any names."""
    found: dict[str, set[str]] = {}
    for each in requirements:
        values = set(each.values)
        if is_common:
            found[each.key] = values & found[each.key] if each.key in found else values
        else:
            found.setdefault(each.key, set()).update(values)
    return {key: frozenset(values) for key, values in found.items()}


class FieldMatcher:
    """Answers as `FieldSelector.matches`; `fields` are those that it looks at."""

    __slots__ = ("_unwanted", "_wanted", "fields")

    def __init__(self, selector: FieldSelector) -> None:
        self.fields = tuple(dict.fromkeys(term.field for term in selector.terms))
        self._wanted: dict[str, set[str]] = {}
        self._unwanted: dict[str, set[str]] = {}
        for term in selector.terms:
            (self._unwanted if term.is_negated else self._wanted).setdefault(term.field, set()).add(term.value)

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Does it select an object with these fields?"""
        for field, values in self._wanted.items():
            # No field has two values.
            if len(values) > 1 or fields.get(field, "") not in values:
                return False
        return all(fields.get(field, "") not in values for field, values in self._unwanted.items())
