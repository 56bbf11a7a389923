"""Numbers that may also be percentages, as budgets and rollouts have them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from jettison.apiserver.objects.validation.mistakes import Mistake, invalid
from jettison.apiserver.objects.validation.resources import NOT_NEGATIVE

_PERCENT: Final = re.compile(r"[0-9]+%")
_PERCENT_RULE: Final = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', "
    "regex used for validation is '[0-9]+%')"
)


def validate_amount(amount: int | str, field: str) -> Iterator[Mistake]:
    """Not negative, or a percentage, be it of more than there is."""
    if isinstance(amount, int):
        if amount < 0:
            yield invalid(field, amount, NOT_NEGATIVE)
    elif not _PERCENT.fullmatch(amount):
        yield invalid(field, amount, _PERCENT_RULE)


def validate_share(amount: int | str, field: str) -> Iterator[Mistake]:
    """At most all of it; what is no percentage is not looked at."""
    if not isinstance(amount, str) or not _PERCENT.fullmatch(amount):
        return
    # By its length first: a million digits are a text, and slow to read as a number.
    if len(amount.lstrip("0")) > len("100%") or int(amount[:-1]) > 100:
        yield invalid(field, amount, "must not be greater than 100%")


def is_nothing(amount: int | str) -> bool:
    """Whether it is none at all; a text that is no percentage counts as none, as upstream has it."""
    if isinstance(amount, int):
        return amount == 0
    return not _PERCENT.fullmatch(amount) or not amount[:-1].strip("0")
