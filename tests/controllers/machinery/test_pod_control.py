"""Slow starts, and pods from templates."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jettison.controllers.machinery.pod_control import is_namespace_ending, pod_from_template, slow_start
from jettison.controllers.replica_set import OWNER_KIND
from jettison.errors import ApiError, RuntimeFailure

OWNER: dict[str, Any] = {"metadata": {"name": "rs", "namespace": "s", "uid": "o"}}


def _run(count: int, refused: set[int]) -> tuple[list[int], int, str]:
    """The numbers that were tried in the order of their beginning, how many were made, and the complaint."""
    tried: list[int] = []

    async def work(number: int) -> None:
        tried.append(number)
        await asyncio.sleep(0)
        if number in refused:
            raise ApiError(f"no {number}")

    started = asyncio.run(slow_start(count, work))
    return tried, started.made, str(started.error or "")


@pytest.mark.parametrize(
    ("count", "refused", "tried", "made", "complaint"),
    [
        (0, set(), 0, 0, ""),
        (10, set(), 10, 10, ""),
        # A quota that refuses everything is asked once.
        (500, set(range(500)), 1, 0, "no 0"),
        # 1, then 2, then 4: the batch in which it fails is the last.
        (500, {4, 5}, 7, 5, "no 4"),
    ],
)
def test_a_slow_start(count: int, refused: set[int], tried: int, made: int, complaint: str) -> None:
    assert _run(count, refused) == (list(range(tried)), made, complaint)


def test_a_mistake_of_ours_is_no_refusal() -> None:
    async def work(number: int) -> None:
        raise (RuntimeFailure("the connection broke") if number < 2 else KeyError("spec"))

    started = asyncio.run(slow_start(2, work))
    assert (started.made, str(started.error)) == (0, "the connection broke")

    async def mixed(number: int) -> None:
        if number:
            await work(number)

    with pytest.raises(KeyError):
        asyncio.run(slow_start(4, mixed))


def test_a_pod_of_an_empty_template() -> None:
    pod = pod_from_template(OWNER_KIND, OWNER, {})
    assert set(pod["metadata"]) == {"ownerReferences"}
    assert pod["spec"] == {}


@pytest.mark.parametrize(
    ("details", "is_ending"),
    [
        ({"causes": [{"reason": "NamespaceTerminating", "message": "m"}]}, True),
        ({"causes": [{"reason": "FieldValueInvalid"}]}, False),
        ({}, False),
        (None, False),
    ],
)
def test_a_namespace_that_ends(details: dict[str, Any] | None, is_ending: bool) -> None:
    assert is_namespace_ending(ApiError("no", code=403, reason="Forbidden", details=details)) is is_ending
    assert not is_namespace_ending(RuntimeFailure("no answer"))
