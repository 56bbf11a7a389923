"""The kill path, walked once before it is needed: a starving node is no time to find out that it does not work.

A process that ignores SIGTERM is started in a place of its own and killed the way an eviction ends. That loads every
line of the way, and a machine that would not let us kill says so at start-up.
"""

from __future__ import annotations

import os
from pathlib import Path

from jettison.engine.pods.pod import Pod
from jettison.errors import SignalError
from jettison.runtimes.host.cgroups.places import Places
from jettison.runtimes.host.processes.forking import Launch
from jettison.runtimes.host.processes.processes import spawn

_PATIENCE = 5.0


async def rehearse_kill(places: Places) -> None:
    """Raises SignalError when a pod could not be ended here."""
    pod = Pod("rehearsal", "jettison", uid=f"rehearsal-{os.getpid()}")
    outer, inner = places.of_pod(pod), places.of_container(pod, "main")
    try:
        outer.create()
        inner.create()
        command = ("/bin/sh", "-c", "trap '' TERM; sleep 60")
        process = await spawn(Launch(command, inner.environment, Path("/")), inner, lambda _pid, _start: None)
        inner.kill()
        left = await inner.empty(_PATIENCE)
        if left:
            raise SignalError(f"processes {sorted(left)} survive SIGKILL: pods could not be evicted here")
        await process.exited
    finally:
        inner.remove()
        outer.remove()
