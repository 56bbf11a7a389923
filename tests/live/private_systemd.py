"""A systemd of the tests' own, with a part of every cgroup hierarchy, a process tree and a `/run` to itself.

Namespaces make it process 1 of a machine that has nothing but its units: cgroups beside its own are not in its sight,
and the settings of the kernel are read-only for it. It ends, with all that runs in there, when the test kills it.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from jettison.runtimes.linux.cgroups.cgroup import Cgroup
from jettison.runtimes.linux.cgroups.mounts import discover
from jettison.runtimes.linux.files.filesystems import Mount, read_mounts
from tests.janitor import fresh_name

SYSTEMD = Path("/lib/systemd/systemd")
_START_SECONDS = 30
_ROOT = Path("/sys/fs/cgroup")
# Units are looked for in a directory of the test, so that none of the host's is started, and where systemd itself keeps
# those that are made while it runs.
_START = """set -e
mount --make-rprivate /
mount -t proc proc /proc
mkdir -p {home}/cgroup {home}/units
{mounts}
umount -R {root}
mount --move {home}/cgroup {root}
mount -t tmpfs -o mode=755 tmpfs /run
mount --bind /proc/sys /proc/sys
mount -o remount,ro,bind /proc/sys
: > {home}/console
mount --bind {home}/console /dev/console
printf '[Unit]\\nDefaultDependencies=no\\n' > {home}/units/test.target
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin SYSTEMD_GENERATOR_PATH={home}/units \\
  SYSTEMD_UNIT_PATH={home}/units:/run/systemd/transient:/run/systemd/system.control \\
  {systemd} --system --unit=test.target --log-target=console --show-status=no
"""
# What a machine's own programs are: in the root of every hierarchy until systemd puts them into a unit.
_ENTER = """for each in {root}/cgroup.procs {root}/*/cgroup.procs; do [ ! -e $each ] || echo 0 > $each; done
exec setpriv --pdeathsig TERM systemd-run --quiet --scope --unit="$0" "$@"
"""


@dataclass(frozen=True)
class PrivateSystemd:
    """One that runs; `pid` is its number outside."""

    pid: int

    def inside(self, *command: str) -> list[str]:
        """The command in its namespaces."""
        return ["nsenter", "-t", str(self.pid), "-m", "-p", "-C", "-u", *command]

    def as_scope(self, name: str) -> list[str]:
        """What starts a program in a unit of its own."""
        return self.inside("sh", "-c", _ENTER.format(root=_ROOT), name)

    def tell(self, *command: str) -> str:
        """What a command in there says."""
        done = subprocess.run(self.inside(*command), capture_output=True, text=True, timeout=60, check=True)
        return done.stdout

    def slices(self) -> set[str]:
        """Those that are active, without systemd's own."""
        return self._units("slice") - {"-.slice", "system.slice"}

    def scopes(self) -> set[str]:
        """Those that are active."""
        return self._units("scope")

    def _units(self, kind: str) -> set[str]:
        told = self.tell("systemctl", "list-units", "--plain", "--no-legend", "--full", f"*.{kind}")
        return {line.split()[0] for line in told.splitlines()}


@contextmanager
def private_systemd(home: Path) -> Iterator[PrivateSystemd]:
    """As root only. `home` has to be on a path without blanks."""
    mounts, top = discover(), f"jettison-{fresh_name()}"
    trees = [mount for mount in read_mounts() if mount.fstype in ("cgroup", "cgroup2")]
    for tree in trees:
        _make(tree.mount_point, top)
    (home / "start.sh").write_text(_script(home, trees))
    enter = "".join(f"echo $$ > {tree.mount_point}/{top}/cgroup.procs; " for tree in trees)
    words = f"{enter} exec unshare -C -m -p -u -f --kill-child sh {home}/start.sh"
    with (home / "log").open("wb") as log:
        outer = subprocess.Popen(["sh", "-c", words], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        yield PrivateSystemd(_first_process(outer, home))
    finally:
        outer.kill()
        outer.wait()
        deadline = time.monotonic() + _START_SECONDS
        while not Cgroup(mounts, top).remove() and time.monotonic() < deadline:
            time.sleep(0.01)


def _make(hierarchy: Path, name: str) -> None:
    """An empty cpuset takes no process."""
    (hierarchy / name).mkdir()
    for file in ("cpuset.cpus", "cpuset.mems"):
        if (hierarchy / file).exists():
            (hierarchy / name / file).write_text((hierarchy / file).read_text())


def _script(home: Path, trees: list[Mount]) -> str:
    """All hierarchies again, at their places; each shows only what is below the cgroup that we are in."""
    lines = []
    if not any(tree.mount_point == _ROOT for tree in trees):
        lines.append(f"mount -t tmpfs -o mode=755 tmpfs {home}/cgroup")
    for tree in trees:
        place = home / "cgroup" / tree.mount_point.relative_to(_ROOT)
        options = ",".join(sorted(tree.super_options - {"rw", "ro"}))
        named = f"none,{options}" if "name=" in options else options
        chosen = f"-o {named}" if tree.fstype == "cgroup" else ""
        lines += [f"mkdir -p {place}", f"mount -t {tree.fstype} {chosen} cgroup {place}"]
    if lines[0].startswith("mount -t tmpfs"):
        # Else systemd would mount hierarchies here that the machine does not have.
        lines.append(f"mount -o remount,ro {home}/cgroup")
    return _START.format(home=home, root=_ROOT, systemd=SYSTEMD, mounts="\n".join(lines))


def _first_process(outer: subprocess.Popen[bytes], home: Path) -> int:
    """Once it answers."""
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children")
        found = children.read_text().split() if children.exists() else []
        if found:
            systemd = PrivateSystemd(int(found[0]))
            asked = subprocess.run(
                systemd.inside("systemctl", "is-system-running"),
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            if asked.stdout.strip() in ("running", "degraded"):
                return systemd.pid
        time.sleep(0.05)
    raise AssertionError(f"systemd does not start: {(home / 'log').read_text()[-2000:]}{outer.poll()}")
