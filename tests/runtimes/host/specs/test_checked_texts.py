"""Hostile texts are refused with a message that can be printed."""

from __future__ import annotations

import pytest

from jettison.errors import ManifestError
from jettison.runtimes.host.specs import checked_texts

HOSTILE = ["", "..", ".", "a/b", "/", "a\0b", "a\nb", "A", "-a", "a-", "a" * 64, "ä", "a b", "a\n", "\ud800", "٣"]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_label_is_refused(text: str) -> None:
    with pytest.raises(ManifestError, match="not a lower case DNS label") as caught:
        checked_texts.label(text, "name")
    str(caught.value).encode("utf-8")


@pytest.mark.parametrize("text", ["a", "a-b", "0", "a" * 63])
def test_a_plain_label_is_taken(text: str) -> None:
    assert checked_texts.label(text, "name") == text


@pytest.mark.parametrize("text", [*(each for each in HOSTILE if each != "a" * 64), "a..b", ".a", "a." + "b" * 252])
def test_a_hostile_pod_name_is_refused(text: str) -> None:
    with pytest.raises(ManifestError, match="not a lower case DNS name"):
        checked_texts.subdomain(text, "metadata.name")


def test_a_pod_name_may_have_dots() -> None:
    assert checked_texts.subdomain("a.b-c.d", "metadata.name") == "a.b-c.d"


@pytest.mark.parametrize("text", ["a\0", "\udfff", "x\ud800y"])
def test_what_no_program_can_be_given_is_refused(text: str) -> None:
    with pytest.raises(ManifestError, match="no program can be given"):
        checked_texts.passable(text, "command")


@pytest.mark.parametrize("text", ["", "a\nb", "é", "😀", "$(X)"])
def test_anything_else_may_be_an_argument(text: str) -> None:
    assert checked_texts.passable(text, "command") == text


@pytest.mark.parametrize("path", ["/a", "../a", "a/../../b", "a/.."])
def test_a_path_that_leads_out_is_refused(path: str) -> None:
    with pytest.raises(ManifestError, match=r"relative and without `\.\.`"):
        checked_texts.below(path, "subPath")


def test_a_choice_names_what_is_allowed() -> None:
    with pytest.raises(ManifestError, match="medium is `Disk`, allowed: `Memory`"):
        checked_texts.choice("Disk", ("", "Memory"), "medium")


def test_the_first_name_that_comes_twice_is_named() -> None:
    with pytest.raises(ManifestError, match="two volumes are called `b`"):
        checked_texts.unique(["a", "b", "b", "a"], "volume")


@pytest.mark.parametrize(
    ("value", "text"),
    [("x", "x"), ("a\nb", r"a\nb"), ("\x1b[2J", r"\x1b[2J"), ("\ud800", r"\ud800"), (-5, "-5"), ("'", "'")],
)
def test_what_is_shown_can_be_printed_and_is_quoted_once(value: object, text: str) -> None:
    assert checked_texts.shown(value) == text
