"""One mistake in one field, and the 422 that lists them all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import msgspec

from jettison.engine.numbers.strconv import quote
from jettison.errors import ApiError
from jettison.values import frozen

MOST_MISTAKES = 1000
MOST_CHARACTERS = 1_000_000
UNSAFE = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}
"""What Go escapes in JSON although it need not, for `str.translate`."""


@frozen
class Mistake:
    """What is wrong with a field. `reason` is the API's, `text` starts with what kind of mistake it is."""

    field: str
    reason: str
    text: str

    def __str__(self) -> str:
        return f"{self.field}: {self.text}"


def invalid(field: str, value: Any, why: str) -> Mistake:
    """The value is not allowed."""
    return Mistake(field, "FieldValueInvalid", f"Invalid value: {shown(value)}" + (f": {why}" if why else ""))


def required(field: str, why: str = "") -> Mistake:
    """There is no value, and there must be one."""
    return Mistake(field, "FieldValueRequired", f"Required value: {why}" if why else "Required value")


def forbidden(field: str, why: str) -> Mistake:
    """There is a value, and there must be none, or not now."""
    return Mistake(field, "FieldValueForbidden", f"Forbidden: {why}")


def unsupported(field: str, value: Any, supported: Sequence[str]) -> Mistake:
    """The value is none of those there are."""
    # Such a value has a type of its own in Go.
    value = Pointed(value) if isinstance(value, str) else value
    known = ", ".join(quote(each) for each in supported)
    return Mistake(field, "FieldValueNotSupported", f"Unsupported value: {shown(value)}: supported values: {known}")


def duplicate(field: str, value: Any, why: str = "") -> Mistake:
    """Something else has this value already."""
    return Mistake(field, "FieldValueDuplicate", f"Duplicate value: {shown(value)}" + (f": {why}" if why else ""))


def not_found(field: str, value: str) -> Mistake:
    """It refers to something that is not there."""
    return Mistake(field, "FieldValueNotFound", f"Not found: {quote(value)}")


def too_many(field: str, found: int, limit: int) -> Mistake:
    """More elements than are allowed."""
    return Mistake(field, "FieldValueTooMany", f"Too many: {found}: must have at most {limit} items")


def too_long(field: str, limit: int) -> Mistake:
    """More bytes than fit."""
    return Mistake(field, "FieldValueTooLong", f"Too long: may not be more than {limit} bytes")


def internal(field: str, why: str) -> Mistake:
    """Kubernetes could not find out whether the value is allowed."""
    return Mistake(field, "InternalError", f"Internal error: {why}")


class Pointed(str):
    """A text that Go has behind a pointer or with a type of its own, and so shows as JSON."""

    __slots__ = ()


def shown(value: Any) -> str:
    """As Go prints a value in a complaint: texts with its escapes, the rest as JSON."""
    if type(value) is Pointed:
        return msgspec.json.encode(str(value)).decode().translate(UNSAFE)
    return quote(value) if isinstance(value, str) else msgspec.json.encode(value).decode()


def first_of(*mistakes: Iterable[Mistake]) -> list[Mistake]:
    """As many as a refusal tells. 3 MB can be wrong in 200,000 places, and each takes up to 2 kB to say."""
    found: list[Mistake] = []
    size = 0
    for each in chain(*mistakes):
        found.append(each)
        size += len(each.field) + len(each.text)
        if len(found) == MOST_MISTAKES or size > MOST_CHARACTERS:
            break
    return found


def refusal(group: str, kind: str, name: str, mistakes: Iterable[Mistake]) -> ApiError:
    """422. Without a name there is none in the details, but the message still has its quotes.

    What is found twice is said once in the message, and stands twice among the causes.
    """
    listed = first_of(mistakes)
    texts = list(dict.fromkeys(map(str, listed)))
    qualified = f"{kind}.{group}" if group else kind
    causes = [{"reason": each.reason, "message": each.text, "field": each.field} for each in listed]
    details: dict[str, Any] = {"name": name} if name else {}
    if group:
        details["group"] = group
    if kind:
        details["kind"] = kind
    return ApiError(
        f"{qualified} {quote(name)} is invalid: {texts[0] if len(texts) == 1 else '[' + ', '.join(texts) + ']'}",
        code=422,
        reason="Invalid",
        details={**details, "causes": causes},
    )
