"""The same answer to the same parts."""

from __future__ import annotations

from jettison.runtimes.host.pods.reports import KeptAnswer


def test_an_answer_is_made_once_for_the_same_objects() -> None:
    made: list[int] = []

    def make() -> list[int]:
        made.append(1)
        return list(made)

    kept = KeptAnswer[list[int]]()
    part = [1]
    first = kept.get([part, "x"], make)
    assert kept.get([part, "x"], make) is first
    assert kept.get([[1], "x"], make) is not first  # equal is not the same
    assert kept.get([part, "x", None], make) == [1, 1, 1]
    assert len(made) == 3
