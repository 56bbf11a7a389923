"""How Go reads a number and quotes a text, where that shows in Kubernetes' answers.

Kubernetes' error texts quote what they complain about with Go's `%q`, and its integers are 64 bits wide.
Quantities and durations have grammars and quotes of their own.
"""

from __future__ import annotations

from typing import Final

from jettison.errors import InputError

INT64_MAX: Final = 2**63 - 1
INT64_MIN: Final = -(2**63)
_UINT64_MAX: Final = 2**64 - 1
_ESCAPES: Final = {
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
    '"': r"\"",
    "\\": r"\\",
}


def parse_int64(text: str) -> int | None:
    """The number that Go's ParseInt(text, 10, 64) reads, or None where it fails.

    A plus sign and leading zeros are fine; spaces, underscores and digits of other scripts, all of which
    Python's int() takes, are not.
    """
    try:
        return atoi(text)
    except InputError:
        return None


def atoi(text: str) -> int:
    """Go's Atoi, with its error texts.

    Which of its two errors it reports is the surprise. Go reads from the left, so `99999999999999999999x` is
    out of range (twenty nines overflow 64 unsigned bits before the `x` is seen), `9999999999999999999x` with
    one nine less is bad syntax.
    """
    unsigned = text[1:] if text.startswith(("+", "-")) else text
    rest = unsigned.lstrip("0123456789")
    digits = unsigned.removesuffix(rest)
    significant = digits.lstrip("0")
    # Never convert a long run of digits: Python refuses more than 4300 of them with an error of its own.
    magnitude = int(significant or "0") if len(significant) <= len(str(_UINT64_MAX)) else _UINT64_MAX + 1
    if magnitude <= _UINT64_MAX and (rest or not digits):
        raise InputError(f"strconv.Atoi: parsing {quote(text)}: invalid syntax")
    number = -magnitude if text.startswith("-") else magnitude
    if not INT64_MIN <= number <= INT64_MAX:
        raise InputError(f"strconv.Atoi: parsing {quote(text)}: value out of range")
    return number


def quote(text: str) -> str:
    """Go's `%q`: double quotes, and an escape for whatever cannot be printed.

    Half of a surrogate pair has no place in UTF-8. Go's JSON decoder turns it into U+FFFD long before
    anything is printed, so the same is done here.
    """
    return f'"{"".join(map(_escape, text))}"'


def _escape(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    code = ord(char)
    if 0xD800 <= code < 0xE000:
        return "\N{REPLACEMENT CHARACTER}"
    if char.isprintable():
        return char
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
