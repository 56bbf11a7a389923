"""The rules that comments cite are shipped: every `spec §N` is a section of docs/rules."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
RULES = ROOT / "docs" / "rules"
# `spec §5.8, §9, §10.1`, `spec §9.2 to §9.5`, `spec/api-eviction.md §1.6`.
CITED = re.compile(r"spec(?:/(?P<file>[a-z-]+\.md))? (?P<sections>§[0-9.]*[0-9](?:(?:,| to| and) §[0-9.]*[0-9])*)")
SECTION = re.compile(r"^#{2,3} ([0-9]+(?:\.[0-9]+)?)\.? ", re.MULTILINE)
SOURCES = sorted(
    path
    for folder in ("src", "tests", "docs", "benchmarks")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in (".py", ".md") and path.parent != RULES and path != Path(__file__)
)


def _sections(name: str) -> set[str]:
    return set(SECTION.findall((RULES / name).read_text(encoding="utf-8")))


def _cited() -> list[tuple[str, str, str]]:
    return [
        (str(path.relative_to(ROOT)), match["file"] or "node-pressure.md", section)
        for path in SOURCES
        for match in CITED.finditer(path.read_text(encoding="utf-8"))
        for section in re.findall(r"§([0-9.]*[0-9])", match["sections"])
    ]


def test_every_cited_rule_is_there() -> None:
    """A reader that follows a citation finds the section."""
    cited = _cited()
    assert len(cited) > 60
    missing = [each for each in cited if each[2] not in _sections(each[1])]
    assert not missing


def test_no_comment_cites_a_part_that_has_no_number() -> None:
    """Such as `spec part B`: it would escape the test above."""
    odd = [str(path) for path in SOURCES if re.search(r"\bspec part\b", path.read_text(encoding="utf-8"))]
    assert not odd


@pytest.mark.parametrize("name", ["node-pressure.md", "api-eviction.md"])
def test_the_rules_speak_of_one_version_and_of_no_plan(name: str) -> None:
    """They say what is implemented: v1.36.4, without tags of evidence or advice."""
    text = (RULES / name).read_text(encoding="utf-8")
    assert "v1.36.4" in text
    assert not re.findall(r"\[V\]|\[S\]|\[R\]|\[1\.[0-9]+\]|WE SHOULD|WE MUST|TODO", text)
