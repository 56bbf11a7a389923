"""What was probably meant: for names that nothing knows and for amounts that are none.

Kubernetes' own sentences stay what they are where an API or a kubelet would say them; these are for the user that
made the mistake, in a file on this machine or on the command line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from jettison.engine.numbers.quantity import FORMAT_WRONG, NUMBER_WRONG, SUFFIX_WRONG

# Comparing takes the product of both lengths, and no name that is known has 50 characters.
_LONGEST = 64
_LIKENESS = 0.6
_NO_QUANTITY = (FORMAT_WRONG, NUMBER_WRONG, SUFFIX_WRONG)
_AMOUNT = re.compile(r"([+-]?[0-9]+(?:\.[0-9]*)?)\s*([A-Za-z]*)", re.ASCII)
# `MB`, `mb`, `MiB`, `mi`, `megabytes` all begin with the letter that tells how large.
_UNIT = re.compile(r"([kmgtpe])(?:i|b|ib|ilo|ega|iga|era|eta|xa)?(?:b|ytes?|ibytes?|bytes?)?", re.ASCII | re.IGNORECASE)
_BYTES = ("b", "byte", "bytes")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The name that looks most like it; None where none does."""
    if len(name) > _LONGEST:
        return None
    from difflib import get_close_matches  # noqa: PLC0415  of no use to an agent, which stays for months

    by_lower = {each.lower(): each for each in known}
    found = get_close_matches(name.lower(), by_lower, 1, _LIKENESS)
    return by_lower[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """To be put behind a complaint about `name`; empty where nothing looks like it."""
    meant = nearest(name, known)
    return "" if meant is None else f", did you mean `{meant}`?"


def quantity_advice(complaint: str, text: str) -> str:
    """What to write instead of `text`, where the complaint is Kubernetes' regular expression; else the complaint."""
    if not complaint.endswith(_NO_QUANTITY):
        return complaint
    advice = "expected a number, with k, M, G, T, P, E or Ki, Mi, Gi, Ti, Pi, Ei behind it, such as `512Mi`"
    match = _AMOUNT.fullmatch(text.strip()) if len(text) <= _LONGEST else None
    if match is not None:
        number, unit = match.groups()
        letter = _UNIT.fullmatch(unit)
        if unit.lower() in (*_BYTES, ""):
            advice = f"write {number}"
        elif letter is not None:
            size = letter[1].upper()
            advice = f"write {number}{'k' if size == 'K' else size} or {number}{size}i"
    return complaint.removesuffix(next(each for each in _NO_QUANTITY if complaint.endswith(each))) + advice


def setting_advice(complaint: str, key: str, value: object) -> str:
    """What to write instead, where Kubernetes has only a regular expression or the word unsupported.

    `key` is the field that the complaint is about, with the entry of a map behind a dot, and `value` what it has.
    """
    from jettison.engine.config.policy import RESERVABLE  # noqa: PLC0415  a child that only reads manifests
    from jettison.engine.node.signals import Signal  # noqa: PLC0415  has no use for these two

    name, signals = key.partition(".")[2], tuple(signal.value for signal in Signal)
    if complaint == f"unsupported eviction signal {name}":
        return f"{complaint}: expected one of {', '.join(signals)}{did_you_mean(name, signals)}"
    if complaint.startswith("cannot reserve "):
        return f"{complaint}: expected one of {', '.join(RESERVABLE)}{did_you_mean(name, RESERVABLE)}"
    return quantity_advice(complaint, value) if isinstance(value, str) else complaint
