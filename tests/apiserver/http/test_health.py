"""Health as Kubernetes tells it: one word, or each check on a line of its own."""

from __future__ import annotations

import pytest

from tests.apiserver.served import Served

_WARNING = "warn: some health checks cannot be excluded: no matches for "


@pytest.mark.parametrize(
    ("query", "lines"),
    [
        ("", None),
        ("exclude=ping", None),
        ("verbose", ["[+]ping ok", "livez check passed"]),
        ("verbose&exclude=ping", ["[+]ping excluded: ok", "livez check passed"]),
        ("verbose&exclude=b&exclude=a%22", ["[+]ping ok", f'{_WARNING}"a\\"","b"', "livez check passed"]),
    ],
)
def test_checks_are_listed_when_asked_for_and_left_out_when_excluded(
    api: Served, query: str, lines: list[str] | None
) -> None:
    answer = api.get("/livez", query=query)
    assert answer.code == 200
    assert answer.content.decode() == ("ok" if lines is None else "".join(f"{line}\n" for line in lines))


def test_a_failed_check_that_is_excluded_does_not_count(api: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api.store.reserve, "look", lambda: False)
    monkeypatch.setattr(api.store.reserve, "is_full", True)
    failed = api.get("/readyz")
    assert failed.code == 500
    assert b"[-]store-space failed: the disk of" in failed.content
    assert failed.content.endswith(b"\nreadyz check failed\n")
    assert api.get("/readyz", query="exclude=store-space").content == b"ok"
    alone = api.get("/readyz/store-space", query="exclude=store-space")
    assert (alone.code, alone.content.startswith(b"[-]store-space failed")) == (500, True)
