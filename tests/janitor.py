"""Nothing that a test makes outlives its run: processes, cgroups, mounts and loop devices, also after SIGKILL.

A run is named after the process that owns it, `<pid>-<start ticks>`, so that every later run can see whether the owner
is dead. All that tests make carries this name: processes have it in their environment, cgroups and nodes in their names
(`fresh_name`), mounts and loop devices lie below the directories of the run. Three things clear it away: the run when
it ends, a guard process that waits for the death of the run, and the next run, in case the guard was killed as well.
Nothing is touched that carries no such name, or the name of a run that is alive: several suites may run side by side.

Only the standard library: the guard is `python -I -S janitor.py RUN ROOT`.
"""

from __future__ import annotations

import fcntl
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

RUN_VARIABLE = "JETTISON_TEST_RUN"
# Seconds that what a test made may take to go by itself.
PATIENCE_VARIABLE = "JETTISON_TEST_PATIENCE"
# Names of nodes become `jettison/test-…` or `jettison-test-…` as cgroups.
_NAME = re.compile(r"(?:jettison-)?test-(\d+-\d+)-")
# A pod's process inherits nothing from the agent, but has these: paths in the directories of its node.
_PATH_VARIABLES = (b"HOME", b"TMPDIR", b"JETTISON_PLACE")
_OWNER_FILE = "owner"
_CLEARING_SECONDS = 30.0
_LOOP_CLR_FD = 0x4C01  # <linux/loop.h>
_numbers = count()


def _start_ticks(pid: int) -> str | None:
    """None when there is no such process, or only its zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else fields[19].decode()


def name_of(pid: int) -> str:
    """The name of a run that this process owns."""
    return f"{pid}-{_start_ticks(pid)}"


def is_alive(run: str) -> bool:
    pid, _, ticks = run.partition("-")
    return _start_ticks(int(pid)) == ticks


def fresh_name() -> str:
    """For a node or a cgroup of a test; with `jettison-` before it where it is a cgroup at the top."""
    run = os.environ.setdefault(RUN_VARIABLE, name_of(os.getpid()))
    return f"test-{run}-{os.environ.get('JETTISON_TEST_WORKER', 'w')}n{next(_numbers)}"


@dataclass(frozen=True, slots=True)
class Run:
    """One run and the directory in which all runs have their directories, usually `/tmp`."""

    name: str
    root: Path

    @property
    def directory(self) -> Path:
        """What `tempfile` makes is below. A short name: paths of sockets have at most 107 bytes."""
        return self.root / f"jt-{self.name}"

    def directories(self) -> list[Path]:
        """And those that pytest made, which stay when a test has failed."""
        owned = (path for path in self.root.glob(f"pytest-of-*/pytest-*/{_OWNER_FILE}") if _text(path) == self.name)
        return [self.directory, *(path.parent for path in owned)]

    def leftovers(self) -> list[str]:
        """What is there of the run, in words."""
        found = [f"process {pid}: {_command(pid)}" for pid in sorted(self._processes())]
        found += [f"cgroup {path}" for path in self._cgroups()]
        found += [f"mount {path}" for path in self._mounts()]
        return found + [f"loop device {path}" for path in self._loop_devices()]

    def settle(self) -> list[str]:
        """What is left when all had time to go by itself."""
        deadline = time.monotonic() + float(os.environ.get(PATIENCE_VARIABLE, "30"))
        while (left := self.leftovers()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return left

    def clear(self) -> list[str]:
        """End the run's processes, then remove all that they have held. What could not be removed, in words."""
        deadline = time.monotonic() + _CLEARING_SECONDS
        while self.leftovers():
            for pid, ticks in self._processes().items():
                _kill(pid, ticks)
            for path in self._cgroups():
                _remove_cgroup(path)
            for path in self._mounts():
                subprocess.run(["umount", "--lazy", path], check=False, stderr=subprocess.DEVNULL)
            for path in self._loop_devices():
                _detach(path)
            if time.monotonic() > deadline:
                return self.leftovers()
            time.sleep(0.02)
        # Never with a mount inside: a bind mount would lead the removal to files that are not ours.
        shutil.rmtree(self.directory, ignore_errors=True)
        for path in Path("/dev/shm").glob(f"test-{self.name}-*"):
            path.unlink(missing_ok=True)
        for path in self.directories()[1:]:
            (path / _OWNER_FILE).unlink(missing_ok=True)
        for top in _cgroup_roots():
            with suppress(OSError):  # not there, or other nodes are in it
                (top / "jettison").rmdir()
        return []

    def _processes(self) -> dict[int, str]:
        """With their start: those that carry the run's name or a path of it, and all in its cgroups."""
        spared = {os.getpid(), os.getppid(), int(self.name.partition("-")[0])}
        mark = f"{RUN_VARIABLE}={self.name}".encode()
        paths = tuple(
            name + b"=" + os.fsencode(directory) + b"/" for name in _PATH_VARIABLES for directory in self.directories()
        )
        found = {pid for path in self._cgroups() for pid in _members(path)}
        found |= {pid for pid in _pids() if any(v == mark or v.startswith(paths) for v in _environment(pid))}
        starts = {pid: _start_ticks(pid) for pid in found - spared}
        return {pid: ticks for pid, ticks in starts.items() if ticks is not None}

    def _cgroups(self) -> list[Path]:
        """The topmost of the run in each hierarchy."""
        return [path for path, run in _named_cgroups() if run == self.name]

    def _mounts(self) -> list[Path]:
        """Deepest first."""
        lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
        points = {Path(os.fsdecode(_unescape(line.split()[4]))) for line in lines}
        places = self.directories()
        found = [path for path in points if any(path.is_relative_to(place) for place in places)]
        return sorted(found, key=lambda path: len(path.parts), reverse=True)

    def _loop_devices(self) -> list[Path]:
        places = self.directories()
        return [
            Path("/dev", path.parent.parent.name)
            for path in Path("/sys/block").glob("loop*/loop/backing_file")
            if any(Path(_text(path)).is_relative_to(place) for place in places)
        ]


def clear_after_the_dead(root: Path) -> list[str]:
    """All runs whose owner has died. What could not be removed, in words."""
    names = {run for _, run in _named_cgroups()}
    names |= {path.name.removeprefix("jt-") for path in root.glob("jt-*-*")}
    names |= {_text(path) for path in root.glob(f"pytest-of-*/pytest-*/{_OWNER_FILE}")}
    names |= {name for pid in _pids() if (name := _run_of(pid))}
    dead = sorted(name for name in names if re.fullmatch(r"\d+-\d+", name) and not is_alive(name))
    return [failure for name in dead for failure in Run(name, root).clear()]


@contextmanager
def watched_run() -> Iterator[Run]:
    """A run of this process: what the dead have left goes first, and what this one makes goes at its end."""
    root = Path(tempfile.gettempdir())
    clear_after_the_dead(root)
    run = Run(name_of(os.getpid()), root)
    run.directory.mkdir()
    run.directory.chmod(0o1777)  # as /tmp: some tests become another user
    outer = {name: os.environ.get(name) for name in (RUN_VARIABLE, "TMPDIR", "PYTEST_DEBUG_TEMPROOT")}
    os.environ.update({RUN_VARIABLE: run.name, "TMPDIR": str(run.directory), "PYTEST_DEBUG_TEMPROOT": str(root)})
    tempfile.tempdir = None
    guard = _start_guard(run)
    try:
        yield run
    finally:
        run.clear()
        guard.kill()
        guard.wait()
        for name, value in outer.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
        tempfile.tempdir = None


def own(directory: Path) -> None:
    """This directory, which pytest made, is the run's."""
    (directory / _OWNER_FILE).write_text(os.environ[RUN_VARIABLE])


def _start_guard(run: Run) -> subprocess.Popen[bytes]:
    """In a session of its own, which no Ctrl-C reaches, and without the name of the run, so that it is not cleared."""
    variables = {name: value for name, value in os.environ.items() if name not in (RUN_VARIABLE, "TMPDIR")}
    return subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, run.name, str(run.root)],
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )


def _guard(run: Run) -> None:
    """Wait until the owner of the run is dead, then clear."""
    with suppress(ProcessLookupError):
        descriptor = os.pidfd_open(int(run.name.partition("-")[0]))
        if is_alive(run.name):
            select.select([descriptor], [], [])
    run.clear()


def _kill(pid: int, ticks: str) -> None:
    """The number may be another process's by now: look again once it cannot change any more."""
    with suppress(OSError):
        descriptor = os.pidfd_open(pid)
        try:
            if _start_ticks(pid) == ticks:
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        finally:
            os.close(descriptor)


def _environment(pid: int) -> list[bytes]:
    """As it was when the process began; nothing of a process that is gone or not ours to read."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _run_of(pid: int) -> str:
    prefix = f"{RUN_VARIABLE}=".encode()
    return next((each.removeprefix(prefix).decode() for each in _environment(pid) if each.startswith(prefix)), "")


def _pids() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _command(pid: int) -> str:
    return _text(Path(f"/proc/{pid}/cmdline")).replace("\0", " ").strip()[:120]


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _unescape(field: bytes) -> bytes:
    """The kernel writes blanks in a path of the mount table as octal numbers."""
    return re.sub(rb"\\([0-7]{3})", lambda found: bytes([int(found[1], 8)]), field)


def _cgroup_roots() -> list[Path]:
    """Where nodes are made: at the top of each hierarchy, or in the cgroup of this process where it is delegated."""
    kinds = (line.split() for line in Path("/proc/self/mounts").read_text().splitlines())
    tops = [Path(fields[1]) for fields in kinds if fields[2] in ("cgroup", "cgroup2")]
    own_paths = {line.split(":", 2)[2].strip("/") for line in Path("/proc/self/cgroup").read_text().splitlines()}
    return tops + [top / path for top in tops for path in sorted(own_paths) if path and (top / path).is_dir()]


def _named_cgroups() -> list[tuple[Path, str]]:
    """Cgroups of tests, each with the run whose name it carries."""
    folders = [each for top in _cgroup_roots() for each in (top, top / "jettison")]
    found = [path for folder in folders if folder.is_dir() for path in folder.iterdir() if _NAME.match(path.name)]
    return [(path, match[1]) for path in found if path.is_dir() and (match := _NAME.match(path.name))]


def _members(top: Path) -> list[int]:
    files = [Path(folder, "cgroup.procs") for folder, _, _ in os.walk(top)]
    return [int(word) for file in files for word in _text(file).split()]


def _remove_cgroup(top: Path) -> None:
    """Inner cgroups first; one with processes stays until they are dead, and one that is frozen is thawed for that."""
    for folder, _, files in os.walk(top, topdown=False):
        for name, calm in (("freezer.state", "THAWED"), ("cgroup.freeze", "0")):
            if name in files:
                with suppress(OSError):
                    Path(folder, name).write_text(calm)
        with suppress(OSError):
            Path(folder).rmdir()


def _detach(device: Path) -> None:
    with suppress(OSError), device.open("rb") as file:
        fcntl.ioctl(file, _LOOP_CLR_FD)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _guard(Run(sys.argv[1], Path(sys.argv[2])))
