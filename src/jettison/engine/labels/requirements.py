"""One condition on one label: `app in (web,db)`, of a selector or of a node that a pod asks for.

Apart from selectors, because an agent judges the latter and selects nothing. Complaints are Kubernetes'.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

from jettison.engine.labels.syntax import label_key_complaints, label_value_complaints
from jettison.engine.numbers.strconv import parse_int64, quote
from jettison.errors import InputError
from jettison.values import frozen


class Operator(StrEnum):
    """Spelled as Kubernetes' complaints spell them; `==` differs from `=` in the canonical text only."""

    IN = "in"
    NOT_IN = "notin"
    EQUALS = "="
    DOUBLE_EQUALS = "=="
    NOT_EQUALS = "!="
    GREATER_THAN = "gt"
    LESS_THAN = "lt"
    EXISTS = "exists"
    DOES_NOT_EXIST = "!"


# Go's JSON escapes what HTML or JavaScript would misread, too.
_JSON_ESCAPES: Final = {
    **{code: f"\\u{code:04x}" for code in (*range(0x20), *b"<>&", 0x2028, 0x2029)},
    **str.maketrans({'"': r"\"", "\\": r"\\", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t"}),
}
_SYMBOLS: Final = {Operator.GREATER_THAN: ">", Operator.LESS_THAN: "<"}


@frozen
class Requirement:
    """One condition on one key. Make it with `require`, which checks it."""

    key: str
    operator: Operator
    values: tuple[str, ...]

    def matches(self, labels: Mapping[str, str]) -> bool:
        """A label that is absent satisfies the two negations and nothing else."""
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN | Operator.EQUALS | Operator.DOUBLE_EQUALS:
                return value in self.values
            case Operator.NOT_IN | Operator.NOT_EQUALS:
                return value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
            case Operator.GREATER_THAN | Operator.LESS_THAN:
                return self._compares(value)

    def _compares(self, value: str | None) -> bool:
        number = None if value is None else parse_int64(value)
        bound = parse_int64(self.values[0])
        if number is None or bound is None:
            return False
        return number > bound if self.operator is Operator.GREATER_THAN else number < bound

    def __str__(self) -> str:
        match self.operator:
            case Operator.EXISTS:
                return self.key
            case Operator.DOES_NOT_EXIST:
                return f"!{self.key}"
            case Operator.IN | Operator.NOT_IN:
                return f"{self.key} {self.operator} ({','.join(sorted(self.values))})"
            case _:
                return f"{self.key}{_SYMBOLS.get(self.operator, self.operator)}{self.values[0]}"


def require(key: str, operator: Operator, values: Sequence[str]) -> Requirement:
    """A checked requirement. The complaint names everything that is wrong with it."""
    complaints = []
    if key_complaints := label_key_complaints(key):
        complaints.append(f"key: Invalid value: {quote(key)}: {'; '.join(key_complaints)}")
    complaints += _operand_complaints(operator, values)
    for index, value in enumerate(values):
        if value_complaints := label_value_complaints(value):
            invalid = f"Invalid value: {quote(value)}: {'; '.join(value_complaints)}"
            complaints.append(f"values[{index}][{key}]: {invalid}")
    if complaints:
        raise InputError(complaints[0] if len(complaints) == 1 else f"[{', '.join(complaints)}]")
    return Requirement(key, operator, tuple(values))


def _operand_complaints(operator: Operator, values: Sequence[str]) -> Iterator[str]:
    match operator:
        case Operator.IN | Operator.NOT_IN:
            is_right, rule = len(values) > 0, "for 'in', 'notin' operators, values set can't be empty"
        case Operator.EXISTS | Operator.DOES_NOT_EXIST:
            is_right, rule = len(values) == 0, "values set must be empty for exists and does not exist"
        case Operator.GREATER_THAN | Operator.LESS_THAN:
            is_right, rule = len(values) == 1, "for 'Gt', 'Lt' operators, exactly one value is required"
        case _:
            is_right, rule = len(values) == 1, "exact-match compatibility requires one single value"
    if not is_right:
        yield f"values: Invalid value: {_as_go_json(values)}: {rule}"
    if operator in (Operator.GREATER_THAN, Operator.LESS_THAN):
        for index, value in enumerate(values):
            if parse_int64(value) is None:
                rule = "for 'Gt', 'Lt' operators, the value must be an integer"
                yield f"values[{index}]: Invalid value: {quote(value)}: {rule}"


def _as_go_json(values: Sequence[str]) -> str:
    """A list as Go's JSON writes it, which has null for one that was never made."""
    escaped = [value.translate(_JSON_ESCAPES) for value in values]
    return '["' + '","'.join(escaped) + '"]' if values else "null"
