"""Who a process is and who belongs to it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen

import pytest

from jettison.errors import ObservationError, WriteError
from jettison.runtimes.linux.capabilities import Capability, read_capabilities
from jettison.runtimes.linux.processes import (
    GroupUsage,
    Process,
    family,
    read_process,
    read_processes,
    set_oom_score_adj,
    total,
)

Spawn = Callable[[str], "Popen[bytes]"]

TAIL = b" 0 0 0 0 0 0 0 0 20 0 3 0 987654 1000000 250 18446744073709551615"


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


def test_a_family_is_group_session_and_descendants() -> None:
    leader = process(10, 1, 10, 10)
    child = process(11, 10, 10, 10)
    own_session = process(12, 11, 12, 12)  # left group and session, but its parent lives
    orphan = process(13, 1, 10, 10)  # parent gone, group kept
    orphans_child = process(14, 13, 14, 14)
    stranger = process(20, 1, 20, 20)

    found = family(10, [stranger, orphans_child, orphan, own_session, child, leader])

    assert set(found) == {leader, child, own_session, orphan, orphans_child}
    assert total(found) == GroupUsage(processes=5, threads=10, resident=500)
    assert family(99, [leader, stranger]) == ()


def test_a_cycle_of_parents_ends() -> None:
    """Processes are read one after the other, so numbers may have been reused in between."""
    assert len(family(1, [process(1, 2), process(2, 1)])) == 2


def test_a_real_family_survives_the_death_of_its_middle(spawn: Spawn) -> None:
    leader = spawn(
        "import os, time\nos.setsid()\n"
        "if os.fork() == 0:\n    if os.fork(): os._exit(0)\n    print(os.getpid(), flush=True)\n    time.sleep(20)\n"
        "os.wait()\ninput()"
    )
    grandchild = int(read_line(leader))

    members = family(leader.pid, read_processes())

    assert {leader.pid, grandchild} <= {member.pid for member in members}
    assert os.getpid() not in {member.pid for member in members}
    os.kill(grandchild, 9)


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
