"""Runs inside the guest and reports, one line for each subject, what its kernel and its interpreter can do."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import select
import signal
import socket
import sys
import time
from pathlib import Path

import click
import msgspec
import yaml

import jettison
import jettison.engine
from tests.live.guest_side import CGROUPS, MIB, counters, report, start_in


def cgroup(name: str, **settings: str) -> Path:
    """Create a cgroup; `memory_max="1"` writes 1 to its memory.max."""
    path = CGROUPS / name
    path.mkdir()
    for key, value in settings.items():
        (path / key.replace("_", ".")).write_text(value)
    return path


def touch(mib: int) -> None:
    block = b"\1" * (mib * MIB)
    time.sleep(600 if block else 0)


def system() -> None:
    mounts = [line.split()[2] for line in Path("/proc/mounts").read_text().splitlines()]
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        report(loopback=True)
    report(
        cgroup_mounts=[kind for kind in mounts if kind.startswith("cgroup")],
        controllers=(CGROUPS / "cgroup.controllers").read_text().split(),
        time=time.time(),
        cargo=Path("cargo/bytes").read_bytes().hex(),
    )


def imports() -> None:
    home = Path(jettison.__file__)
    report(
        python=sys.version,
        requirements={name: importlib.metadata.version(name) for name in ("click", "msgspec", "pyyaml")},
        answers=[click.unstyle("plain"), msgspec.json.decode(b"[1]"), yaml.load("[1]", yaml.CSafeLoader)],
        jettison=[str(home), hashlib.sha256(home.read_bytes()).hexdigest()],
        engine=list(jettison.engine.__path__),
        bytecode_flags=Path(importlib.util.cache_from_source(str(home))).read_bytes()[4],
    )


def memory_max() -> None:
    path = cgroup("capped", memory_max=str(20 * MIB))
    _, status = os.waitpid(start_in(path, lambda: touch(64)), 0)
    report(
        capped_exit=os.waitstatus_to_exitcode(status),
        capped_events=counters(path / "memory.events"),
        capped_peak=int((path / "memory.peak").read_text()),
    )


def cgroup_kill() -> None:
    """One process that ignores SIGTERM and has a child that left its session: what a sweep by pid can miss."""
    path = cgroup("doomed")

    def stubborn() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if os.fork() == 0:
            os.setsid()
        time.sleep(600)

    pid = start_in(path, stubborn)
    while len((path / "cgroup.procs").read_text().split()) < 2:
        time.sleep(0.01)
    (path / "cgroup.kill").write_text("1")
    _, status = os.waitpid(pid, 0)
    deadline = time.monotonic() + 10
    while counters(path / "cgroup.events")["populated"] and time.monotonic() < deadline:
        time.sleep(0.01)
    report(killed_exit=os.waitstatus_to_exitcode(status), killed_events=counters(path / "cgroup.events"))


def oom_score_adj() -> None:
    own = Path("/proc/self/oom_score_adj")
    own.write_text("-900")
    report(oom_score_adj=int(own.read_text()))
    own.write_text("0")


def pressure() -> None:
    path = cgroup("stalled", memory_high=str(20 * MIB))
    trigger = os.open(path / "memory.pressure", os.O_RDWR | os.O_NONBLOCK)
    os.write(trigger, b"some 50000 500000\0")
    poll = select.poll()
    poll.register(trigger, select.POLLPRI)
    calm = poll.poll(1000)
    started = time.monotonic()
    pid = start_in(path, lambda: touch(64))
    events = [event for _, event in poll.poll(20_000)]
    report(calm_events=calm, stall_events=events, stall_seconds=time.monotonic() - started)
    (path / "cgroup.kill").write_text("1")
    os.waitpid(pid, 0)


if __name__ == "__main__":
    (CGROUPS / "cgroup.subtree_control").write_text("+memory")
    for probe in (system, imports, memory_max, cgroup_kill, oom_score_adj, pressure):
        probe()
    sys.exit(7)
