"""Forks of this process itself: for a command that enters a container, and to try what the kernel permits.

An agent whose loop guards a node has containers forked by another process (`starter`).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

from jettison.errors import StartError
from jettison.runtimes.host.processes import closing, mounting
from jettison.runtimes.host.processes.becoming import become
from jettison.runtimes.host.processes.orders import Layer, MountPlan, MountPoint
from jettison.runtimes.linux.files.kernel_files import reason
from jettison.runtimes.linux.processes import fork_quietly

_OWNER_ONLY = 0o700


class _Here:
    """By forks of this process, for one whose loop guards nothing."""

    async def fork(self, ours: socket.socket, theirs: socket.socket) -> None:
        try:
            pid = fork_quietly()
        except OSError as error:
            raise StartError(reason(error)) from error
        if pid == 0:
            try:
                # With our end open in the child itself the socket would not end with us.
                os.close(ours.fileno())
            finally:
                become(theirs.fileno())

    def give_up(self) -> None:
        return

    async def turn(self) -> None:
        return

    def soon(self, step: Callable[[], None]) -> None:
        step()


HERE = _Here()


def rehearse_mounts(staging: Path, closed: str = closing.NOTHING, layer: Layer | None = None) -> str:
    """Try it in a child that is gone afterwards: why processes cannot have mounts of their own, or an empty text."""
    if os.geteuid() != 0:
        return "only root may mount"
    try:
        staging.mkdir(mode=_OWNER_ONLY, exist_ok=True)
        if layer is not None:
            Path(layer.directory).mkdir(mode=_OWNER_ONLY)
        told, tell = os.pipe()
        pid = fork_quietly()
    except OSError as error:
        return f"no private mounts: {reason(error)}"
    if pid == 0:
        try:
            point = MountPoint(str(staging), f"/{staging.name}")
            mounting.arrange(MountPlan((point,), str(staging), closed, layer))
        except OSError as error:
            os.write(tell, f"no private mounts: {reason(error)}".encode("utf-8", "replace")[:500])
        finally:
            os._exit(0)
    os.close(tell)
    try:
        return os.read(told, 1000).decode("utf-8", "replace")
    finally:
        os.close(told)
        os.waitpid(pid, 0)
