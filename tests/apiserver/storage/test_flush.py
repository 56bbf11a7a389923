"""Flushes of a file by the kernel: each is reported once, and what cannot be flushed is an error."""

from __future__ import annotations

import asyncio
import errno
import os
import platform
from pathlib import Path

import pytest

from jettison.apiserver.storage import flush
from jettison.apiserver.storage.flush import KernelFlush


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


def test_each_flush_is_reported_once_in_the_loop_that_asked_for_it(tmp_path: Path) -> None:
    told: list[OSError | None] = []
    before = descriptors()
    with (tmp_path / "file").open("wb", buffering=0) as file:
        kernel = KernelFlush(file.fileno())

        async def work() -> None:
            for number in range(20):
                file.write(b"x" * 5000)
                kernel.begin(told.append)
                while len(told) == number:
                    await asyncio.sleep(0)

        asyncio.run(work())
        told.clear()
        asyncio.run(work())
        kernel.close()
    assert told == [None] * 20
    assert descriptors() == before


def test_what_cannot_be_flushed_is_refused() -> None:
    reading, writing = os.pipe()
    kernel = KernelFlush(writing)

    async def work() -> None:
        kernel.begin(lambda _: None)

    with pytest.raises(OSError, match=os.strerror(errno.EINVAL)):
        asyncio.run(work())
    kernel.close()
    os.close(reading)
    os.close(writing)


def test_a_machine_whose_calls_are_not_known_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "pdp11")
    with (tmp_path / "file").open("wb") as file, pytest.raises(OSError, match=os.strerror(errno.ENOSYS)):
        KernelFlush(file.fileno())


def test_a_kernel_without_such_calls_leaves_nothing_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = flush._CALLS[platform.machine()]._replace(setup=9999)
    monkeypatch.setitem(flush._CALLS, platform.machine(), absent)
    with (tmp_path / "file").open("wb") as file:
        before = descriptors()
        with pytest.raises(OSError, match=os.strerror(errno.ENOSYS)):
            KernelFlush(file.fileno())
        assert descriptors() == before
