"""The record of a pod that runs and has none: made from what the kernel and the disk still know.

A damaged file must not cost a pod its life. The uid is in the name of its cgroup, the document in the manifest that
asks for it. Each container has a place of its own, and of the processes there that lead a session the oldest is the one
that the agent started. How often it was restarted its directories tell. What became of containers that have ended is
lost: they begin anew, as their policy wants.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from jettison.clock import Instant
from jettison.errors import ObservationError
from jettison.runtimes.host.cgroups.places import Place
from jettison.runtimes.host.pods.records import ContainerRecord, PodRecord
from jettison.runtimes.host.specs.spec import ContainerSpec, PodSpec
from jettison.runtimes.host.volumes.pod_directories import PodDirectories
from jettison.runtimes.linux.processes import Process, read_process

_TICKS = os.sysconf("SC_CLK_TCK")


def recovered(record: PodRecord, directories: PodDirectories, spec: PodSpec) -> PodRecord:
    """`record` as it would be if the pod had been started now, with the containers that run."""
    now = Instant.of(directories.services.clock)
    found = {each.name: _container(each, directories, now) for each in (*spec.init_containers, *spec.containers)}
    running = tuple(each for each in found.values() if each is not None)
    began_ns = min((each.begun_monotonic_ns or 0 for each in running), default=now.monotonic_ns)
    started_ns = now.wall_ns - (now.monotonic_ns - began_ns)
    return replace(
        record,
        created_ns=started_ns,
        started_ns=started_ns,
        started_monotonic_ns=began_ns,
        containers=running,
        is_initialized=any(found[each.name] is not None for each in spec.containers),
    )


def _container(spec: ContainerSpec, directories: PodDirectories, now: Instant) -> ContainerRecord | None:
    main = _leader(directories.services.places.of_container(directories.pod, spec.name))
    if main is None:
        return None
    # Counted from the boot, and suspensions with it: at most the age of this boot.
    begun_ns = min(main.start_ticks * 10**9 // _TICKS, now.monotonic_ns)
    run = _latest_run(directories.writable_dir(spec.name, 0).parent)
    # As an agent would have left it that died right after the start.
    return ContainerRecord(spec.name, "starting", run, main.pid, main.start_ticks, begun_ns)


def _leader(place: Place) -> Process | None:
    found = []
    for pid in place.processes():
        try:
            process = read_process(pid)
        except ObservationError:
            continue
        if process is not None and not process.is_zombie and process.session == pid:
            found.append(process)
    return min(found, key=lambda each: (each.start_ticks, each.pid), default=None)


def _latest_run(directory: Path) -> int:
    try:
        names = [path.name for path in directory.iterdir()]
    except OSError:
        return 0
    return max((int(name) for name in names if name.isascii() and name.isdigit() and len(name) < 10), default=0)
