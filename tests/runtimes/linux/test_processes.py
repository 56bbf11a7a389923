"""The identity of a process, which processes belong to it, and what the kernel lets it do."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen

import pytest

from jettison.errors import ObservationError, WriteError
from jettison.runtimes.linux.processes import (
    Capabilities,
    Capability,
    Process,
    lowest_oom_score_adj,
    read_capabilities,
    read_process,
    read_processes,
    set_oom_score_adj,
)

Spawn = Callable[[str], "Popen[bytes]"]

TAIL = b" 0 0 0 0 0 0 0 0 20 0 3 0 987654 1000000 250 18446744073709551615"

INITIAL = "         0          0 4294967295\n"


def process(pid: int, parent: int, group: int = 0, session: int = 0) -> Process:
    return Process(pid, parent, group, session, "S", start_ticks=pid, threads=2, resident=100)


def read_line(process: Popen[bytes]) -> bytes:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize("name", [b"sh", b"a b", b"x) Z 1 1 1 (", b")", b"\xff\n) R"])
def test_a_name_cannot_forge_the_fields_behind_it(fake_proc: Path, name: bytes) -> None:
    (fake_proc / "42").mkdir()
    (fake_proc / "42/stat").write_bytes(b"42 (" + name + b") S 7 8 9 0 -1 4194304" + TAIL)

    found = read_process(42, fake_proc)

    assert found is not None
    assert (found.state, found.parent, found.group, found.session) == ("S", 7, 8, 9)


def test_threads_start_and_resident_memory_are_found(fake_proc: Path) -> None:
    (fake_proc / "42").mkdir()
    (fake_proc / "42/stat").write_bytes(b"42 (x) S 7 8 9 0 -1 4194304" + TAIL)

    found = read_process(42, fake_proc)

    assert found is not None
    assert (found.threads, found.start_ticks, found.resident) == (3, 987654, 250 * os.sysconf("SC_PAGE_SIZE"))


def test_a_stat_without_its_fields_is_an_error(fake_proc: Path) -> None:
    (fake_proc / "42").mkdir()
    (fake_proc / "42/stat").write_bytes(b"42 (x) S 7")

    with pytest.raises(ObservationError, match="not the fields of a process"):
        read_process(42, fake_proc)


def test_a_real_process_may_call_itself_anything(spawn: Spawn) -> None:
    child = spawn("open('/proc/self/comm', 'w').write('x) Z 1 1 (\\n')\nprint(flush=True)\ninput()")
    read_line(child)

    found = read_process(child.pid)

    assert found is not None
    assert (found.parent, found.is_zombie) == (os.getpid(), False)
    assert (child.pid, found.start_ticks) in {(other.pid, other.start_ticks) for other in read_processes()}
    assert found.resident > 1 << 20


def test_start_times_tell_apart_what_numbers_do_not(spawn: Spawn) -> None:
    child = spawn("input()")
    first, again, me = read_process(child.pid), read_process(child.pid), read_process(os.getpid())

    assert first is not None
    assert again is not None
    assert me is not None
    assert first.start_ticks == again.start_ticks
    assert me.start_ticks < first.start_ticks


def test_a_zombie_is_known_as_one_and_a_reaped_process_is_gone(spawn: Spawn) -> None:
    child = spawn("")
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    dead = read_process(child.pid)
    child.wait()

    assert dead is not None
    assert dead.is_zombie
    assert read_process(child.pid) is None


def test_a_process_lives_on_without_its_first_thread(spawn: Spawn) -> None:
    """/proc shows a zombie without memory."""
    child = spawn(
        "import ctypes, threading\nheld = bytearray(b'x') * (32 << 20)\n"
        "threading.Thread(target=input).start()\nprint(flush=True)\nctypes.CDLL(None).pthread_exit(None)"
    )
    read_line(child)
    stat = Path(f"/proc/{child.pid}/stat")
    while stat.read_text().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.01)

    found = read_process(child.pid)

    assert found is not None
    assert not found.is_zombie
    assert found.resident > 32 << 20


def test_a_score_is_raised_and_what_is_refused_stays(spawn: Spawn) -> None:
    child = spawn("input()")

    assert set_oom_score_adj(child.pid, 500) == 500
    lowered = set_oom_score_adj(child.pid, -997)
    assert lowered == (-997 if read_capabilities().has(Capability.SYS_RESOURCE) else 500)


def test_a_score_that_no_process_can_have_is_an_error(spawn: Spawn) -> None:
    with pytest.raises(WriteError, match="invalid argument"):
        set_oom_score_adj(spawn("input()").pid, 1001)


def test_a_process_that_is_gone_has_no_score(spawn: Spawn) -> None:
    child = spawn("")
    child.wait()

    assert set_oom_score_adj(child.pid, 500) is None


def write_status(proc: Path, mask: str, uid_map: str | None = INITIAL) -> None:
    (proc / "self/status").write_text(f"Name:\tx\nCapPrm:\t0000000000000000\nCapEff:\t{mask}\nCapBnd:\t0\n")
    if uid_map is not None:
        (proc / "self/uid_map").write_text(uid_map)


@pytest.mark.parametrize("uid_map", [INITIAL, None])
def test_bits_are_capabilities(fake_proc: Path, uid_map: str | None) -> None:
    write_status(fake_proc, "000001fffeffffff", uid_map)

    capabilities = read_capabilities(fake_proc)

    assert capabilities.missing == (Capability.SYS_RESOURCE,)
    assert capabilities.has(Capability.KILL)


def test_a_process_may_have_none(fake_proc: Path) -> None:
    write_status(fake_proc, "0000000000000000")

    assert read_capabilities(fake_proc) == Capabilities(frozenset(), is_in_initial_namespace=True)


def test_in_a_user_namespace_of_its_own_they_count_for_nothing(fake_proc: Path) -> None:
    write_status(fake_proc, "000001ffffffffff", "0 1000 1\n")

    capabilities = read_capabilities(fake_proc)

    assert Capability.SYS_ADMIN in capabilities.effective
    assert not capabilities.has(Capability.SYS_ADMIN)


@pytest.mark.parametrize("content", ["", "CapEff:\tzz\n", "XCapEff:\t0\n"])
def test_a_status_without_the_line_is_an_error(fake_proc: Path, content: str) -> None:
    (fake_proc / "self/status").write_text(content)

    with pytest.raises(ObservationError, match="CapEff"):
        read_capabilities(fake_proc)


@pytest.mark.parametrize(("mask", "lowest"), [("0000000001000000", -1000), ("0000000000000000", 200)])
def test_the_lowest_score_depends_on_one_capability(fake_proc: Path, mask: str, lowest: int) -> None:
    write_status(fake_proc, mask)
    (fake_proc / "self/oom_score_adj").write_text("200\n")

    assert lowest_oom_score_adj(fake_proc) == lowest


def test_the_kernel_agrees_about_the_lowest_score(spawn: Callable[[str], Popen[bytes]]) -> None:
    """A child asks for one less than what we say is the lowest, and for exactly that."""
    lowest = lowest_oom_score_adj()
    assert lowest is not None
    child = spawn(
        "def ask(n):\n"
        "    try: open('/proc/self/oom_score_adj', 'wb', 0).write(b'%d' % n); return 'yes'\n"
        "    except OSError: return 'no'\n"
        f"print(ask({lowest - 1}), ask({lowest}), flush=True)"
    )

    assert child.communicate()[0] == b"no yes\n"
