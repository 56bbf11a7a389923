from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from jettison.clock import SystemClock
from jettison.engine.config.policy import ContainerCollection
from jettison.runtimes.host.cgroups.families import Families
from jettison.runtimes.host.cgroups.places import ProcessGroups
from jettison.runtimes.host.pods.reports import ActivePod
from jettison.runtimes.host.settings import HostSettings
from jettison.runtimes.host.volumes.reclaim import Collector
from jettison.runtimes.protocol import PodStatus, Reclaimed
from tests.builders import MI, pod
from tests.runtimes.host.nodes import active, settings

PLACE = ProcessGroups(Families("test"), MI).of_container(pod(), "c")


class Disk:
    """A node directory with what runs leave behind."""

    def __init__(self, own: HostSettings) -> None:
        self.settings = own
        self.clock = 10**18

    def run(self, uid: str, number: int, *, size: int = 4096) -> None:
        """One run of container `c`; later calls are later runs."""
        writable, log = self.writable(uid, number), self.log(uid, number)
        writable.mkdir(parents=True)
        (writable / "file").write_bytes(b"x" * size)
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(b"x" * 4096)
        self.clock += 10**9
        for path in (writable, log):
            os.utime(path, ns=(self.clock, self.clock))

    def writable(self, uid: str, number: int) -> Path:
        return self.settings.pod_dir(uid) / "containers" / "c" / str(number)

    def log(self, uid: str, number: int) -> Path:
        return self.settings.logs_dir / f"default_{uid}_{uid}" / "c" / f"{number}.log"

    def left(self) -> list[str]:
        """`uid/run` of what is there, `d` for a directory and `l` for a log."""
        found = [f"d {path.parts[-4]}/{path.name}" for path in self.settings.pods_dir.glob("*/containers/c/*")]
        found += [f"l {path.parts[-3].rpartition('_')[2]}/{path.stem}" for path in self.settings.logs_dir.glob("*/c/*")]
        return sorted(found)

    def active(self, uid: str, number: int) -> ActivePod:
        each = active(PLACE, uid, self.settings.node_dir / "elsewhere")
        return replace(each, containers=[replace(each.containers[0], writable_dir=str(self.writable(uid, number)))])


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(settings(tmp_path))


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def status(uid: str, phase: str = "Running", reason: str = "", *, is_ending: bool = False) -> PodStatus:
    return PodStatus(pod(uid), phase, reason, is_ending=is_ending)


def collect(
    disk: Disk,
    pool: ThreadPoolExecutor,
    running: Sequence[ActivePod] = (),
    statuses: Sequence[PodStatus] = (),
    *,
    is_starved: bool = False,
    policy: ContainerCollection = ContainerCollection(),  # noqa: B008
) -> Reclaimed:
    async def scenario() -> Reclaimed:
        collector = Collector(disk.settings, policy, lambda: running, lambda: statuses, pool, SystemClock())
        return await collector.collect(is_starved=is_starved)

    return asyncio.run(scenario())


def test_of_a_running_container_one_dead_run_is_kept(disk: Disk, pool: ThreadPoolExecutor) -> None:
    for number in range(4):
        disk.run("a", number, size=MI)
    done = collect(disk, pool, [disk.active("a", 3)], [status("a")])
    assert disk.left() == ["d a/2", "d a/3", "l a/2", "l a/3"]
    assert done.containers == 2
    assert 2 * MI < done.freed_bytes < 3 * MI
    assert done.errors == ()


def test_on_a_starved_disk_nothing_is_kept_of_pods_that_ended(disk: Disk, pool: ThreadPoolExecutor) -> None:
    for uid in ("alive", "done", "evicted", "ending"):
        disk.run(uid, 0)
    known = [
        status("alive"),
        status("done", "Succeeded"),
        status("evicted", "Failed", "Evicted"),
        status("ending", "Failed", "Evicted", is_ending=True),
    ]
    running = [disk.active("alive", 0)]
    assert collect(disk, pool, running, known) == Reclaimed(), "without need everything of known pods stays"
    done = collect(disk, pool, running, known, is_starved=True)
    assert disk.left() == ["d alive/0", "d ending/0", "l alive/0", "l ending/0"]
    assert done.containers == 2
    # An evicted pod's logs go with their directory; a finished one's directory may still be asked for.
    assert not disk.log("evicted", 0).parents[1].exists()
    assert disk.log("done", 0).parents[1].exists()


def test_what_has_no_owner_goes(disk: Disk, pool: ThreadPoolExecutor) -> None:
    disk.run("forgotten", 0)
    assert collect(disk, pool).containers == 1
    assert disk.left() == []
    assert not disk.log("forgotten", 0).parents[1].exists()


def test_the_policy_says_how_many_are_kept_and_from_what_age(disk: Disk, pool: ThreadPoolExecutor) -> None:
    for number in range(4):
        disk.run("a", number)
    running, known = [disk.active("a", 3)], [status("a")]
    unlimited = ContainerCollection(per_container=-1)
    assert collect(disk, pool, running, known, policy=unlimited) == Reclaimed()
    ages = ContainerCollection(minimum_age_ns=10**20)
    assert collect(disk, pool, running, known, policy=ages) == Reclaimed()
    assert collect(disk, pool, running, known, policy=ContainerCollection(per_container=0)).containers == 3
    assert disk.left() == ["d a/3", "l a/3"]


def test_rotated_logs_belong_to_their_run(disk: Disk, pool: ThreadPoolExecutor) -> None:
    disk.run("a", 10)
    rotated = disk.log("a", 10).with_name("10.log.1")
    rotated.write_bytes(b"x")
    foreign = disk.log("a", 10).with_name("notes.txt")
    foreign.write_bytes(b"x")
    disk.run("a", 11)
    disk.run("a", 12)
    collect(disk, pool, [disk.active("a", 12)], [status("a")])
    assert not rotated.exists()
    assert foreign.exists()
    assert "d a/11" in disk.left()


def test_a_symbolic_link_is_removed_and_not_followed(disk: Disk, pool: ThreadPoolExecutor) -> None:
    disk.run("a", 0)
    disk.run("b", 0)
    link = disk.log("b", 0)
    link.unlink()
    link.symlink_to(disk.settings.state_dir)
    disk.settings.state_dir.mkdir()
    (disk.settings.state_dir / "precious").write_bytes(b"x")
    done = collect(disk, pool)
    assert done.containers == 2
    assert (disk.settings.state_dir / "precious").exists()
    assert disk.left() == []


def test_links_in_the_place_of_a_pods_directories_lead_nowhere(disk: Disk, pool: ThreadPoolExecutor) -> None:
    """And what cannot be looked into costs no other pod its collection."""
    precious = disk.settings.state_dir / "precious"
    (precious / "c" / "7").mkdir(parents=True)
    (precious / "7.log").write_bytes(b"x")
    for uid in "abcd":
        disk.run(uid, 0)
    shutil.rmtree(disk.settings.pod_dir("a") / "containers")
    (disk.settings.pod_dir("a") / "containers").symlink_to(precious)
    shutil.rmtree(disk.writable("b", 0).parent)
    disk.writable("b", 0).parent.symlink_to(precious / "c")
    shutil.rmtree(disk.log("c", 0).parent)
    disk.log("c", 0).parent.symlink_to(precious)
    shutil.rmtree(disk.settings.pod_dir("d") / "containers")
    (disk.settings.pod_dir("d") / "containers").symlink_to("containers")
    disk.run("e", 0)
    done = collect(disk, pool)
    assert done.errors == ()
    assert (precious / "c" / "7").is_dir()
    assert (precious / "7.log").exists()
    assert "d e/0" not in disk.left()


def test_a_node_without_directories_has_nothing_to_collect(disk: Disk, pool: ThreadPoolExecutor) -> None:
    assert collect(disk, pool) == Reclaimed()


def test_a_disk_that_cannot_be_looked_at_is_told(disk: Disk, pool: ThreadPoolExecutor) -> None:
    disk.settings.logs_dir.symlink_to(disk.settings.logs_dir)
    (error,) = collect(disk, pool).errors
    assert "cannot read" in error
