"""What is to be started, and how a process that is about to become it is told.

The order goes to the new process itself, over its own socket: whatever it asks for, neither the agent's loop nor the
process that forks reads it. It is packed by `marshal`, which is part of the interpreter and takes 30 µs for the largest
environment there may be. Descriptors for its streams go with it.
"""

from __future__ import annotations

import marshal
import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path

from jettison.errors import StartError
from jettison.runtimes.host.cgroups.places import Door
from jettison.runtimes.host.processes import capabilities, closing, system_calls
from jettison.runtimes.host.processes.becoming import HEADER
from jettison.runtimes.host.specs.security import NO_SECURITY, SecuritySpec
from jettison.values import frozen


@frozen
class MountPoint:
    """`source` below `base`, which is trusted: what is in it may be a pod's own, and no link in there leads out."""

    base: str
    target: str
    source: str = ""
    is_read_only: bool = False


@frozen
class Layer:
    """What is written lies in `directory`, which is empty and on nodefs. What is mounted below `hidden` is not shown:
    volumes in memory, also those of other pods.
    """

    directory: str
    hidden: str


@frozen
class MountPlan:
    """What to arrange. `staging` is an empty directory; `closed` says what is read-only besides such points; with a
    `layer` all but volumes is written there.
    """

    points: tuple[MountPoint, ...]
    staging: str
    closed: str = closing.NOTHING
    layer: Layer | None = None


@frozen
class Launch:
    """What to run and as which user. `output` is a descriptor for stdout and stderr; None discards both.

    `descriptors` is the soft limit on open files; None leaves the agent's own, with which some programs cannot cope:
    they close every descriptor that there may be, or use select().

    `streams` are descriptors for stdin, stdout and stderr instead of `output`, for a command with a caller of its own;
    with `has_terminal` the first of them is a terminal, and becomes that of the new session; `master` is its other
    side, which the program gets, too, under a high number.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    directory: Path
    output: int | None = None
    security: SecuritySpec = NO_SECURITY
    descriptors: int | None = None
    streams: tuple[int, int, int] | None = None
    has_terminal: bool = False
    master: int | None = None
    # What it sees of the filesystems: an arrangement of its own, or that of a process that runs; else the agent's.
    mounts: MountPlan | None = None
    inside: tuple[int, int] | None = None
    # Whether it is killed when the process that starts it ends, however that ends.
    ends_with_caller: bool = False


@frozen
class StartOrder:
    """As it is sent. `descriptors` go with its first byte."""

    data: bytes
    descriptors: tuple[int, ...]


def order_of(launch: Launch, door: Door) -> StartOrder:
    """Raises StartError for privileges that this process has not got itself."""
    _check_capabilities(launch.security)
    streams = launch.streams or (() if launch.output is None else (launch.output,))
    content = {
        "command": tuple(launch.command),
        "environment": dict(launch.environment),
        "directory": str(launch.directory),
        "security": _plain(launch.security),
        "descriptors": launch.descriptors,
        "has_terminal": launch.has_terminal,
        "has_master": launch.master is not None,
        "mounts": None if launch.mounts is None else _plain(launch.mounts),
        "inside": launch.inside,
        # Its parent, where it is not to outlive that one.
        "caller": os.getpid() if launch.ends_with_caller else 0,
        "entrances": door.entrances,
        "oom_score_adj": door.oom_score_adj,
    }
    data = marshal.dumps(content)
    master = () if launch.master is None else (launch.master,)
    return StartOrder(struct.pack(HEADER, len(data)) + data, (*streams, *master))


def _plain(value: object) -> object:
    """A value as a dictionary, which `becoming` reads the same names from."""
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    if isinstance(value, SecuritySpec | MountPlan | MountPoint | Layer):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    return value


def _check_capabilities(spec: SecuritySpec) -> None:
    missing = spec.added & ~system_calls.permitted_capabilities() if spec.added else 0
    if missing:
        names = [name for number, name in enumerate(capabilities.NAMES) if missing >> number & 1]
        raise StartError(f"capabilities.add: the agent itself has no {', '.join(names)}")
