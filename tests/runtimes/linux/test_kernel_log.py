"""Kills for want of memory of the whole machine, as the kernel logs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from jettison.runtimes.linux.kernel_log import KernelLog, SystemKill, system_kill

HEAD = b"6,9221,14216941570,-;oom-kill:constraint="
# As kernels from 5.0 on print them; the last is a limit of a cgroup, which is no shortage of the machine.
GLOBAL = b"CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/system.slice/db,task=mysqld,"
POLICY = b"CONSTRAINT_MEMORY_POLICY,nodemask=0,cpuset=/,mems_allowed=0-1,global_oom,task_memcg=/,task=a,b=c,"
LIMIT = b"CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/pod,task_memcg=/pod/c,task=python,"


@pytest.mark.parametrize(
    ("line", "kill"),
    [
        (HEAD + GLOBAL + b"pid=4711,uid=0", SystemKill("/system.slice/db", "mysqld", 4711)),
        (HEAD + POLICY + b"pid=7,uid=1000", SystemKill("/", "a,b=c", 7)),
        (HEAD + LIMIT + b"pid=19185,uid=0", None),
        (b"6,1,2,-;Memory cgroup out of memory: Killed process 1 (x)", None),
        (b"1" + HEAD + GLOBAL + b"pid=1,uid=0", None),  # 16: a program wrote it
        (b"", None),
    ],
)
def test_only_a_shortage_of_the_machine_counts(line: bytes, kill: SystemKill | None) -> None:
    assert system_kill(line) == kill


def test_what_was_logged_before_is_old_news(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_bytes(HEAD + GLOBAL + b"pid=1,uid=0\n")
    log = KernelLog(path)
    assert log.system_kills() == []

    with path.open("ab") as file:
        file.write(HEAD + GLOBAL + b"pid=2,uid=0\n" + HEAD + LIMIT + b"pid=3,uid=0\n")
    assert [kill.pid for kill in log.system_kills()] == [2]
    assert log.system_kills() == []
    log.close()
    assert log.system_kills() == []


def test_without_a_log_there_is_no_news(tmp_path: Path) -> None:
    log = KernelLog(tmp_path / "missing")
    assert log.system_kills() == []
    log.close()
