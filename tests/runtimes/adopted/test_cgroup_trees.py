"""Units of systemd, stopped by systemd: the order, what it says to that, and one that never answers."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from jettison.errors import StartError
from jettison.runtimes.adopted.cgroup_trees import stop_unit
from jettison.runtimes.workloads import AdoptedWorkload

BATCH = AdoptedWorkload("cgroup", "cgroup-1", "batch", "system.slice/-batch.service")


@pytest.fixture
def systemctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of that name which is found first; the test writes it."""
    path = tmp_path / "systemctl"
    path.touch(mode=0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return path


def test_systemd_is_told_the_name_of_the_unit(systemctl: Path) -> None:
    """A unit whose name begins as an option does is a unit all the same; and nothing waits for its end."""
    systemctl.write_text('#!/bin/sh\necho "$@" > "$0.told"\n')
    asyncio.run(stop_unit(BATCH))
    assert systemctl.with_suffix(".told").read_text() == "stop --no-block -- -batch.service\n"


def test_what_systemd_says_to_it_is_the_reason(systemctl: Path) -> None:
    systemctl.write_text("#!/bin/sh\necho no such unit >&2; exit 5\n")
    with pytest.raises(StartError, match=r"systemctl stop -batch\.service: no such unit"):
        asyncio.run(stop_unit(BATCH))


def test_a_machine_without_systemd_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StartError, match="cannot run systemctl"):
        asyncio.run(stop_unit(BATCH))


def test_a_systemd_that_does_not_answer_is_given_up(systemctl: Path) -> None:
    """And the program that waits for it is ended."""
    systemctl.write_text('#!/bin/sh\necho $$ > "$0.pid"; exec sleep 3600\n')

    async def stop() -> None:
        with pytest.raises(StartError, match="no answer within 1 s"):
            await stop_unit(BATCH, within_seconds=1)

    asyncio.run(stop())
    assert not (Path("/proc") / systemctl.with_suffix(".pid").read_text().strip()).exists()
