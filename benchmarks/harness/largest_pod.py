"""What the largest pod that an API may send costs the event loop of an agent, beside decoding it at once."""

from __future__ import annotations

import asyncio
import json
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

import msgspec

from jettison.runtimes.kube.bounded_answers import BoundedAnswers
from jettison.runtimes.kube.http import HttpResponse

_CHUNK = 65_536
_TRIES = 5
SMALL_MAPS = 150_000


class Cost(NamedTuple):
    """The longest turn of the loop, and the most memory that there was at once."""

    milliseconds: float
    megabytes: float


def line() -> bytes:
    """1.35 MB, as much of it to decode as JSON can hold: etcd takes no larger object."""
    metadata = {"name": "p", "namespace": "default", "uid": "u", "resourceVersion": "1"}
    pod = {"metadata": metadata, "spec": {"tolerations": [{"k": {}}] * SMALL_MAPS}}
    return json.dumps({"type": "ADDED", "object": pod}, separators=(",", ":")).encode() + b"\n"


def at_once(text: bytes) -> Cost:
    """The baseline."""
    return Cost(min(_timed(lambda: msgspec.json.decode(text)) for _ in range(_TRIES)), _peak(msgspec.json.decode, text))


def in_slices(text: bytes) -> Cost:
    """As an agent reads it; of several tries the best, because other processes take turns, too."""
    return Cost(min(_longest_turn(text) for _ in range(_TRIES)), _peak(lambda each: asyncio.run(_watch(each)), text))


async def _stream(text: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(text), _CHUNK):
        yield text[at : at + _CHUNK]


async def _watch(text: bytes) -> None:
    async for _ in BoundedAnswers().events(HttpResponse(200, {}, _stream(text))):
        pass


def _longest_turn(text: bytes) -> float:
    """Processor time between two turns of a task that is always ready; what waits for a processor does not count."""
    return asyncio.run(_beside(text))


async def _beside(text: bytes) -> float:
    longest = 0.0
    reading = asyncio.create_task(_watch(text))
    while not reading.done():
        began = time.thread_time()
        await asyncio.sleep(0)
        longest = max(longest, time.thread_time() - began)
    reading.result()
    return 1000 * longest


def _timed(work: Callable[[], object]) -> float:
    began = time.thread_time()
    work()
    return 1000 * (time.thread_time() - began)


def _peak(work: Callable[[bytes], object], text: bytes) -> float:
    tracemalloc.start()
    work(text)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most / 1e6
