"""Random request sequences, one of each class that 600 of them have, answered as Kubernetes answered them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from random_api import Player, recorded

from tests.apiserver.served import Served

Json = dict[str, Any]

SEQUENCES = list(recorded())


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("random"))
    yield served
    served.close()


def test_random_sequences(api: Served) -> None:
    """Many at once, because watches wait, and each has a namespace of its own; not all, or the watches would starve."""
    places = asyncio.Semaphore(16)

    async def play(sequence: Json) -> list[str]:
        async with places:
            return await Player(api).play(sequence)

    async def play_all() -> list[list[str]]:
        return list(await asyncio.gather(*map(play, SEQUENCES)))

    findings = [each for found in api.run(play_all()) for each in found]
    assert not findings, f"{len(findings)} differences\n" + "\n".join(findings[:20])


def _steps(sequence: Json) -> Iterator[tuple[Json, Json]]:
    return zip(sequence["ops"], sequence["expected"], strict=True)


def test_every_class_is_there() -> None:
    codes = {(step["op"], answer["code"]) for each in SEQUENCES for step, answer in _steps(each)}
    assert len(codes) > 140
    kinds = {(step.get("headers") or {}).get("Content-Type") for each in SEQUENCES for step in each["ops"]}
    assert {f"application/{kind}-patch+json" for kind in ("json", "merge", "strategic-merge")} <= kinds


def test_a_difference_is_found(api: Served) -> None:
    sequence = json.loads(json.dumps(SEQUENCES[0]))
    sequence["namespace"] = "other"
    text = json.dumps(sequence).replace(SEQUENCES[0]["namespace"], "other").replace('"Active"', '"Passive"')
    assert api.run(Player(api).play(json.loads(text)))
