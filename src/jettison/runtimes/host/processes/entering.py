"""Running a command in a container from another process than the agent: `jettison exec`.

The agent tells what it takes (`Entrance`: environment, directory, identity, cgroups), and its client forks, enters and
executes with the same code that starts containers. So the agent carries no stream and waits for nothing, and the
command has the identity, limits and privileges of the container, and ends with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from jettison.errors import ObservationError
from jettison.runtimes.host.cgroups.places import Door
from jettison.runtimes.host.processes import processes
from jettison.runtimes.host.processes.forking import Launch
from jettison.runtimes.host.processes.processes import Process


@dataclass(frozen=True, slots=True)
class Entrance:
    """Into one running container. The launch has no command yet."""

    container: str
    launch: Launch
    door: Door

    def lead(self, pid: int, *, is_copy: bool = False) -> None:
        """The agent finds what was started here by its cgroup, or by the mark in its environment."""


def encode_entrance(entrance: Entrance) -> bytes:
    """To be sent."""
    return msgspec.json.encode(entrance, enc_hook=str)


def decode_entrance(data: bytes) -> Entrance:
    """As it was sent. Raises ObservationError: the agent may be of another version."""
    try:
        return msgspec.json.decode(data, type=Entrance, dec_hook=lambda kind, value: kind(value))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ObservationError(f"cannot understand how to enter the container: {error}") from error


async def enter(
    entrance: Entrance, command: Sequence[str], streams: tuple[int, int, int], *, has_terminal: bool
) -> Process:
    """Start the command; returns once it runs. Raises StartError, and then there is no process."""
    launch = replace(entrance.launch, command=tuple(command), streams=streams, has_terminal=has_terminal)
    return await processes.spawn(launch, entrance, lambda _pid, _start_ticks: None)
