"""Freeing disk without harming a pod: what dead containers left behind goes, by the kubelet's rules (spec §7.4).

A bare host has no images and no sandboxes. A dead container is a run that has ended: its writable directory and its log
files. They are found on the disk and not in a list, so what a crash left is found as well.

One thing differs from a kubelet on purpose. It deletes the logs of an evicted pod within a minute, because some other
system has them; here there is none, so they stay until the disk runs short or the pod is forgotten.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from jettison.clock import Clock
from jettison.engine.config.policy import ContainerCollection
from jettison.engine.node.dead_containers import DeadContainer, PodState, plan_containers, plan_log_directories
from jettison.engine.node.evictions import EVICTED
from jettison.engine.pods.pod import ENDED_PHASES
from jettison.errors import ActionError, ObservationError
from jettison.runtimes.host.pods.reports import ActivePod
from jettison.runtimes.host.settings import HostSettings
from jettison.runtimes.host.volumes.removal import remove_directory
from jettison.runtimes.linux.files import kernel_files
from jettison.runtimes.linux.files.disk_usage import measure
from jettison.runtimes.protocol import PodStatus, Reclaimed

# `3.log`, and `3.log.1` once it was rotated; each may have the times of its lines beside it.
_LOG = re.compile(r"(\d+)\.log(\.\d+)?(\.times)?")
_BLOCK = 512


@dataclass(frozen=True, slots=True)
class _Run:
    """What is left of one run of a container."""

    dead: DeadContainer
    directory: Path | None
    logs: tuple[Path, ...]


class Collector:
    """Looks in a thread, decides on the loop, removes in a thread. One collection at a time."""

    def __init__(
        self,
        settings: HostSettings,
        policy: ContainerCollection,
        active: Callable[[], Sequence[ActivePod]],
        statuses: Callable[[], Sequence[PodStatus]],
        pool: Executor,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._policy = policy
        self._active = active
        self._statuses = statuses
        self._pool = pool
        self._clock = clock
        self._turn = asyncio.Lock()

    def use(self, policy: ContainerCollection) -> None:
        """From the next collection on."""
        self._policy = policy

    async def collect(self, *, is_starved: bool) -> Reclaimed:
        """Remove what may go; failures are in the answer and are tried again next time."""
        loop = asyncio.get_running_loop()
        async with self._turn:
            # The disk first: whatever starts after this has a run, or a pod, that is not among those found.
            try:
                runs = await loop.run_in_executor(self._pool, self._scan)
                log_directories = await loop.run_in_executor(self._pool, _names, self._settings.logs_dir)
            except ObservationError as failure:
                return Reclaimed(errors=(str(failure),))
            pods = {status.pod.uid: _state(status, is_starved) for status in self._statuses()}
            current = _current(self._active())
            idle = {run.dead: run for run in runs if run.dead.id not in current}
            plan = plan_containers(idle, self._policy, self._clock.now_ns(), pods, is_starved=is_starved)
            forgotten = plan_log_directories(log_directories, pods)
            return await loop.run_in_executor(self._pool, self._remove, [idle[dead] for dead in plan], forgotten)

    def _scan(self) -> list[_Run]:
        directories: dict[tuple[str, str, int], Path] = {}
        for uid in _names(self._settings.pods_dir):
            containers = self._settings.pods_dir / uid / "containers"
            for name in _names(containers):
                for number in _names(containers / name):
                    if number.isascii() and number.isdigit():
                        directories[uid, name, int(number)] = containers / name / number
        logs: dict[tuple[str, str, int], list[Path]] = {}
        for pod in _names(self._settings.logs_dir):
            for name in _names(self._settings.logs_dir / pod):
                for file in _names(self._settings.logs_dir / pod / name):
                    if found := _LOG.fullmatch(file):
                        key = (pod.rpartition("_")[2], name, int(found[1]))
                        logs.setdefault(key, []).append(self._settings.logs_dir / pod / name / file)
        return [
            run
            for key in sorted(directories.keys() | logs.keys())
            if (run := _found(key, directories.get(key), logs.get(key, ()))) is not None
        ]

    def _remove(self, runs: Iterable[_Run], log_directories: Iterable[str]) -> Reclaimed:
        count, freed, errors = 0, 0, list[str]()
        for run in runs:
            paths = [*([] if run.directory is None else [run.directory]), *run.logs]
            removed = [_removed(path, errors) for path in paths]
            count += None not in removed
            freed += sum(size or 0 for size in removed)
        for name in log_directories:
            freed += _removed(self._settings.logs_dir / name, errors) or 0
        return Reclaimed(containers=count, freed_bytes=freed, errors=tuple(errors))


def _state(status: PodStatus, is_starved: bool) -> PodState:
    has_ended = is_starved and status.phase in ENDED_PHASES and not status.is_ending
    return PodState(is_content_removable=has_ended and status.reason == EVICTED, is_runtime_removable=has_ended)


def _current(active: Iterable[ActivePod]) -> set[str]:
    """The latest run of each container that has not ended for good: it runs, or its pod may want to look at it."""
    return {
        f"{each.manifest.pod.uid}/{container.name}/{container.writable_dir.rpartition('/')[2]}"
        for each in active
        for container in each.containers
    }


def _found(key: tuple[str, str, int], directory: Path | None, logs: Sequence[Path]) -> _Run | None:
    """A run was created when the oldest of its traces was last made; None when all have vanished meanwhile."""
    uid, name, run = key
    born = []
    for path in (*([] if directory is None else [directory]), *logs):
        try:
            born.append(path.lstat().st_mtime_ns)
        except FileNotFoundError:
            continue
    return _Run(DeadContainer(f"{uid}/{name}/{run}", uid, name, min(born)), directory, tuple(logs)) if born else None


def _names(directory: Path) -> list[str]:
    """What is in a directory; nothing when it is gone, or is something else."""
    try:
        return sorted(path.name for path in directory.iterdir())
    except OSError as error:
        if error.errno in kernel_files.GONE:
            return []
        raise kernel_files.unreadable(directory, error) from error


def _removed(path: Path, errors: list[str]) -> int | None:
    """Bytes that were freed; None, and a line in `errors`, when it could not be removed."""
    try:
        if path.is_dir() and not path.is_symlink():
            usage = measure(path)
            remove_directory(path)
            return 0 if usage is None else usage.size
        size = path.lstat().st_blocks * _BLOCK
        path.unlink()
    except FileNotFoundError:
        return 0
    except (ActionError, ObservationError) as failure:
        errors.append(str(failure))
        return None
    except OSError as error:
        errors.append(f"cannot remove `{path}`: {kernel_files.reason(error)}")
        return None
    return size
