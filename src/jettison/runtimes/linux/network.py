"""Bytes and errors of network interfaces, of this machine or of a process with a network of its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from jettison.errors import ObservationError
from jettison.runtimes.linux.files import kernel_files
from jettison.runtimes.linux.files.kernel_files import PROC

# As cAdvisor does, whose numbers a kubelet shows: the loopback carries nothing, and the host's end of a pod's pair
# would be counted twice.
_IGNORED = ("lo", "veth", "docker", "nerdctl")
# Columns of /proc/net/dev after the name.
_RX_BYTES, _RX_ERRORS, _TX_BYTES, _TX_ERRORS = 0, 2, 8, 10
_COLUMNS = 16
# The one that a kubelet shows by itself; where there is none of that name, the one with the default route.
_DEFAULT = "eth0"
_ROUTE_UP = 1


class Interface(NamedTuple):
    """Counted since it was made."""

    name: str
    rx_bytes: int
    rx_errors: int
    tx_bytes: int
    tx_errors: int


class Network(NamedTuple):
    """All interfaces but those that are ignored, and which of them is shown first; None where there is no such."""

    interfaces: tuple[Interface, ...]
    default: Interface | None


def read_network(process: int | str = "self", proc: Path = PROC) -> Network | None:
    """What the process sees; None when it is gone."""
    data = kernel_files.read(proc / str(process) / "net" / "dev")
    if data is None:
        return None
    found = tuple(each for line in data.splitlines() if (each := _interface(line)) is not None)
    wanted = {_DEFAULT, _default_route(process, proc)}
    named = [each for each in found if each.name in wanted]
    return Network(found, min(named, key=lambda each: each.name != _DEFAULT, default=None))


def has_own_network(pid: int, proc: Path = PROC) -> bool:
    """Whether the process is in another network namespace than this one. False when it is gone."""
    try:
        return (proc / str(pid) / "ns" / "net").readlink() != (proc / "self" / "ns" / "net").readlink()
    except OSError:
        return False


def _interface(line: bytes) -> Interface | None:
    name, separator, rest = line.partition(b":")
    numbers = rest.split()
    text = os.fsdecode(name.strip())
    if not separator or len(numbers) < _COLUMNS or text.startswith(_IGNORED):
        return None
    try:
        columns = [int(number) for number in numbers]
    except ValueError:
        raise ObservationError(f"{line[:60]!r} holds no numbers of an interface") from None
    return Interface(text, columns[_RX_BYTES], columns[_RX_ERRORS], columns[_TX_BYTES], columns[_TX_ERRORS])


def _default_route(process: int | str, proc: Path) -> str:
    """The interface of the first route to everywhere that is up; empty where there is none."""
    for line in (kernel_files.read(proc / str(process) / "net" / "route") or b"").splitlines()[1:]:
        fields = line.split()
        if len(fields) > 7 and fields[1] == fields[7] == b"00000000" and int(fields[3], 16) & _ROUTE_UP:
            return os.fsdecode(fields[0])
    return ""
