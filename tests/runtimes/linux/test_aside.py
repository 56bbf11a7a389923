"""Work in a child: its answers, what it inherits, and what becomes of one that does not come back."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec
import pytest

import jettison
from jettison.errors import ObservationError
from jettison.runtimes.linux import aside
from jettison.runtimes.linux.aside import Aside
from jettison.runtimes.linux.aside_child import MEMORY

PROGRAMS = "tests.runtimes.linux.aside_programs"
NULL = os.devnull


def children() -> str:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text()


def test_messages_come_whole_and_no_child_is_left() -> None:
    before = children()
    with Aside(f"{PROGRAMS}:echo") as child:
        assert children() == before
        for message in (b"x", b"y" * 3_000_000):
            child.send(message)
            assert child.receive(len(message)) == message
        with tempfile.TemporaryFile() as file:
            file.write(b"z" * 1_000_000)
            file.flush()
            child.send_file(file.fileno(), 1_000_000)
        assert child.receive(1_000_000) == b"z" * 1_000_000
        assert child.end() == 0
    assert children() == before


def test_a_child_inherits_nothing_but_its_limits() -> None:
    """Neither descriptors nor signals, no place before others, no memory that stays, no care of the OOM killer."""
    leaked = os.open(NULL, os.O_RDONLY)
    os.set_inheritable(leaked, True)
    ignored = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGXCPU})
    try:
        with Aside(f"{PROGRAMS}:describe", processor_seconds=7) as child:
            child.send(b"?")
            found = msgspec.json.decode(child.receive(10_000))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        signal.signal(signal.SIGHUP, ignored)
        os.close(leaked)
    assert found["pid"] != os.getpid()
    assert [each for each in found["descriptors"] if not each.startswith(("/proc/", "socket:"))] == [NULL] * 3
    assert sum(each.startswith("socket:") for each in found["descriptors"]) == 1
    assert found["blocked"] == 0
    # Every Python ignores these two by itself; from 32 on signals are the C library's.
    assert found["ignored"] % 2**31 == 1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1
    assert found["locked"].split() == ["0", "kB"]
    assert (found["oom"], found["policy"], found["site"]) == ("1000", os.SCHED_OTHER, False)
    assert found["niceness"] == os.getpriority(os.PRIO_PROCESS, 0)
    assert (found["memory"], found["seconds"], found["core"]) == (MEMORY, 7, 0)


LIMITED = f"""
import resource, sys
from jettison.runtimes.linux.aside import Aside
resource.setrlimit(resource.RLIMIT_NOFILE, (9, 9))
resource.setrlimit(resource.RLIMIT_AS, (2**29, 2**29))
with Aside("{PROGRAMS}:describe") as child:
    child.send(b"?")
    sys.stdout.buffer.write(child.receive(10_000))
"""


def test_a_child_of_a_limited_process_stays_within_its_limits() -> None:
    """As after `ulimit -v` and `ulimit -n`, which an ordinary user cannot raise."""
    ran = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr.decode()
    assert msgspec.json.decode(ran.stdout)["memory"] == min(MEMORY, 2**29)


PROTECTED = f"""
import os, sys
from jettison.agent.self_protection import go_first, lock_memory
from jettison.runtimes.linux.aside import Aside
lacks = [go_first(), lock_memory()]
os.chdir("/")
with Aside("{PROGRAMS}:describe") as child:
    child.send(b"?")
    sys.stdout.buffer.write(child.receive(10_000))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="a real-time priority and locked memory take root")
def test_the_child_of_an_agent_that_goes_first_does_not(tmp_path: Path) -> None:
    """Also from its main thread, which has the priority; and it is found from another directory by a relative path."""
    source, root = Path(jettison.__path__[0]).parent, Path(__file__).parents[3]
    paths = os.pathsep.join(os.path.relpath(each, tmp_path) for each in (source, root))
    script = tmp_path / "agent.py"
    script.write_text(PROTECTED)
    words = [sys.executable, "agent.py"]
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, check=True)
    found = msgspec.json.decode(done.stdout)
    assert (found["policy"], found["niceness"]) == (os.SCHED_OTHER, 0)
    assert found["locked"].split() == ["0", "kB"]
    assert found["oom"] == "1000"


@pytest.mark.parametrize(("program", "code"), [("be_killed", -9), ("fail", 1)])
def test_a_child_that_ends_by_itself_answers_nothing(program: str, code: int) -> None:
    with Aside(f"{PROGRAMS}:{program}") as child:
        child.send(b"?")
        assert child.receive(100) == b""
        assert child.end() == code


def test_an_answer_has_a_bound() -> None:
    with Aside(f"{PROGRAMS}:echo") as child:
        child.send(b"x" * 101)
        with pytest.raises(ObservationError, match="more than 100 bytes"):
            child.receive(100)


def test_a_child_that_does_not_answer_is_killed() -> None:
    before = children()
    with Aside(f"{PROGRAMS}:sleep", seconds=2.0) as child:
        child.send(b"?")
        with pytest.raises(ObservationError, match=r"not read within 2 s"):
            child.receive(100)
        assert children() == before


def test_a_program_that_cannot_be_loaded_may_be_tried_again() -> None:
    """As in the moment in which another version is installed."""
    with Aside("tests.nowhere:nothing") as child:
        for _ in range(2):
            with pytest.raises(ObservationError, match="no process to read it: it ended before it began, exit code 1"):
                child.send(b"?")


def test_the_interpreter_is_free_while_the_child_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """`os.posix_spawn` would keep it until the child runs its program; functions of this kind let go of it."""
    assert type(aside._LIBC) is ctypes.CDLL
    monkeypatch.delattr(os, "fork")
    monkeypatch.delattr(os, "posix_spawn")
    with Aside(f"{PROGRAMS}:echo") as child:
        child.send(b"x")
        assert child.receive(1) == b"x"
