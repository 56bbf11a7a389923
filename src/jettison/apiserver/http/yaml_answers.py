"""Answers in YAML, with the quotes, the order and the line breaks that Kubernetes' own writer chooses.

By hand because of what it costs: 5,000 pods take 0.6 seconds, with PyYAML 11 and with libyaml still 4.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from functools import cmp_to_key, lru_cache
from typing import Any, Final

import msgspec

# Most texts: nothing in them has a meaning in YAML, and no line can be broken.
_EASY: Final = re.compile(r"[ABCDEGHIJKLMPQRSUVWXZabcdeghijklmpqrsuvwxz/][A-Za-z0-9_./@=+-]{3,}", re.ASCII)
# Words that YAML 1.1 takes for something else than a text, in these spellings only.
_WORDS: Final = frozenset(
    (
        *(spelling for word in ("y", "n") for spelling in (word, word.upper())),
        *(
            spelling
            for word in ("yes", "no", "on", "off", "true", "false", "null")
            for spelling in (word, word.capitalize(), word.upper())
        ),
        *("", "~", ".nan", ".NaN", ".NAN"),
        *(sign + spelling for sign in ("", "+", "-") for spelling in (".inf", ".Inf", ".INF")),
    )
)
_INTEGER: Final = re.compile(r"[-+]?(0[bB][01]+|0[oO]?[0-7]+|0[xX][0-9a-fA-F]+|0|[1-9][0-9]*)")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
# Hours, minutes and seconds, which other readers take for a number.
_BASE_60: Final = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")
_MOMENT: Final = re.compile(
    r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
    r"(?:[Tt]([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:\.[0-9]+)?(?:Z|[-+][0-9]{2}:[0-9]{2})"
    r"| ([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:\.[0-9]+)?)?"
)
_BREAKS: Final = "\n\r\x85\u2028\u2029"
_OPENING: Final = frozenset("#,[]{}&*!|>'\"%@`")
_ESCAPES: Final = {
    "\0": "0", "\a": "a", "\b": "b", "\t": "t", "\n": "n", "\v": "v", "\f": "f", "\r": "r", "\x1b": "e",
    '"': '"', "\\": "\\", "\x85": "N", "\u2028": "L", "\u2029": "P",
}  # fmt: skip
# What they match, not what they do not: Python takes 12 ms of every start to make maps of all other characters.
_SPECIAL: Final = re.compile("[\0-\t\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufeff\ufffe-\U0010ffff]")
_ESCAPED: Final = re.compile('[\0-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe-\U0010ffff"\\\\]')
# A line is broken at the first space behind this column.
_WIDTH: Final = 80
_LONGEST_SIMPLE_KEY: Final = 128


def yaml_of(body: bytes) -> bytes:
    """A JSON document as YAML."""
    return ("\n".join(_lines(msgspec.json.decode(body), "")) + "\n").encode()


def _lines(value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key in _sorted(value):
            yield from _pair(key, value[key], indent)
    elif isinstance(value, list) and value:
        deeper = f"{indent}  "
        for each in value:
            if isinstance(each, str):
                yield f"{indent}- {_text(each, len(indent) + 2, deeper)}"
                continue
            lines = _lines(each, deeper)
            yield f"{indent}- {next(lines).removeprefix(deeper)}"
            yield from lines
    else:
        yield f"{indent}{_scalar(value, len(indent), indent)}"


def _pair(key: str, value: Any, indent: str) -> Iterator[str]:
    name, deeper = _key(key), f"{indent}  "
    is_long = len(key.encode()) > _LONGEST_SIMPLE_KEY
    if is_long:
        yield f"{indent}? {name}"
    head = f"{indent}:" if is_long else f"{indent}{name}:"
    if not (isinstance(value, dict | list) and value):
        yield f"{head} {_scalar(value, len(head) + 1, deeper)}"
    elif is_long:
        lines = _lines(value, deeper)
        yield f"{head} {next(lines).removeprefix(deeper)}"
        yield from lines
    else:
        yield head
        yield from _lines(value, deeper if isinstance(value, dict) else indent)


def _scalar(value: Any, column: int, indent: str) -> str:
    return _text(value, column, indent) if isinstance(value, str) else msgspec.json.encode(value).decode()


@lru_cache(maxsize=4096)
def _key(text: str) -> str:
    if _EASY.fullmatch(text):
        return text
    if not _is_plain(text) or any(each in _BREAKS for each in text):
        return _double(text, 0, None)
    return text if _is_unquoted(text) else _quoted(text, 0, None)


def _text(text: str, column: int, indent: str) -> str:
    """A text that begins at that column; what does not fit goes on the next lines at that indent."""
    if _EASY.fullmatch(text):
        return text
    if "\n" in text:
        if text.endswith(" ") or re.search(f" [{_BREAKS}]", text) or _SPECIAL.search(text):
            return _double(text, column, indent)
        return _literal(text, indent)
    if not _is_plain(text):
        return _double(text, column, indent)
    if not _is_unquoted(text):
        return _quoted(text, column, indent)
    return _folded(text, column, indent, at_ends=True) if column + len(text) > _WIDTH and " " in text else text


def _is_plain(text: str) -> bool:
    """Whether a reader takes it for a text without quotes."""
    if text in _WORDS:
        return False
    if text[0] not in "+-.0123456789":
        return True
    bare = text.replace("_", "")
    if _FLOAT.fullmatch(text if text[0] == "." else bare) or _BASE_60.fullmatch(text) or _is_moment(text):
        return False
    return not (_INTEGER.fullmatch(bare) and -(2**63) <= _integer(bare) < 2**64)


def _integer(text: str) -> int:
    """With the prefixes of Go, of which a lone 0 means octal."""
    digits = text.lstrip("+-")
    is_octal = len(digits) > 1 and digits[0] == "0" and digits[1].isdigit()
    return int(text.replace("0", "0o", 1) if is_octal else text, 0)


def _is_moment(text: str) -> bool:
    found = _MOMENT.fullmatch(text)
    if found is None:
        return False
    try:
        datetime(*(int(each) for each in found.groups() if each is not None))  # type: ignore[arg-type]
    except ValueError:
        return False
    return True


def _is_unquoted(text: str) -> bool:
    """Whether a text that is no other value may stand without quotes."""
    if text[0] == " " or text[-1] == " " or text.startswith(("---", "...")) or text[0] in _OPENING:
        return False
    if text[0] in "?-" and text[1:2] in ("", " ", "\t"):
        return False
    if ": " in text or ":\t" in text or text[-1] == ":" or " #" in text or "\t#" in text:
        return False
    return not _SPECIAL.search(text) and not any(each in text for each in _BREAKS)


def _quoted(text: str, column: int, indent: str | None) -> str:
    """In single quotes if these can hold it."""
    if _SPECIAL.search(text):
        return _double(text, column, indent)
    return f"'{_folded(text, column + 1, indent).replace(chr(39), chr(39) * 2)}'"


def _double(text: str, column: int, indent: str | None) -> str:
    """In double quotes, where every character can be escaped. A break before a second space has to be marked."""
    return f'"{_folded(_ESCAPED.sub(_escape, text), column + 1, indent, mark=chr(92))}"'


def _escape(found: re.Match[str]) -> str:
    char = found[0]
    if char in _ESCAPES:
        return f"\\{_ESCAPES[char]}"
    code = ord(char)
    return f"\\x{code:02X}" if code < 0x100 else f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


def _folded(text: str, column: int, indent: str | None, *, at_ends: bool = False, mark: str = "") -> str:
    """Broken at spaces behind the width; not next to another space, unless `mark` keeps the second one."""
    if indent is None or column + len(text) <= _WIDTH:
        return text
    out, was_space, last = [], False, len(text) - 1
    for at, char in enumerate(text):
        is_inside = at_ends or 0 < at < last
        before_space = text[at + 1 : at + 2] == " "
        if char == " " and column > _WIDTH and not was_space and is_inside and (mark or not before_space):
            out.append(f"\n{indent}{mark if before_space else ''}")
            column = len(indent) + bool(mark and before_space)
        else:
            out.append(char)
            # A quote in single quotes is written twice.
            column += 2 if char == "'" and not mark and not at_ends else 1
        was_space = char == " "
    return "".join(out)


def _literal(text: str, indent: str) -> str:
    """As it is, line by line; the head says whether it begins with a space and how it ends."""
    head = "|2" if text[0] in f" {_BREAKS}" else "|"
    if text[-1] not in _BREAKS:
        head += "-"
    elif len(text) == 1 or text[-2] in _BREAKS:
        head += "+"
    body = text.removesuffix("\n").split("\n")
    return "\n".join((head, *(f"{indent}{line}" if line else "" for line in body)))


def _sorted(value: dict[str, Any]) -> list[str]:
    """By letters; numbers inside keys count as numbers, and go before letters."""
    return sorted(value) if all(map(str.isalpha, value)) else sorted(value, key=cmp_to_key(_compare))


def _compare(left: str, right: str) -> int:
    for at, (one, other) in enumerate(zip(left, right, strict=False)):
        if one == other:
            continue
        if one.isalpha() or other.isalpha():
            is_before = one < other if one.isalpha() and other.isalpha() else other.isalpha()
            return -1 if is_before else 1
        start = _number_start(left, at) if "0" in (one, other) else 0
        found = [_number(text, at, start) for text in (left, right)]
        if found[0] != found[1]:
            return -1 if found[0] < found[1] else 1
        return -1 if one < other else 1
    return len(left) - len(right)


def _number_start(text: str, at: int) -> int:
    """1 where the digits before are a number that goes on here."""
    while at and text[at - 1].isdecimal():
        at -= 1
        if text[at] != "0":
            return 1
    return 0


def _number(text: str, at: int, start: int) -> tuple[int, int]:
    """The number that the digits from here make, and where they end."""
    end = at
    while end < len(text) and text[end].isdecimal():
        start = start * 10 + ord(text[end]) - ord("0")
        end += 1
    return start, end
