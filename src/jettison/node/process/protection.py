"""An agent that has this process to itself protects it; one inside another process (demo, tests) leaves it alone."""

from __future__ import annotations

import hashlib  # noqa: F401  loaded by uuid5 when the first manifest is read
import os
import sys

from jettison import events
from jettison.agent.self_protection import LateImports, OwnCgroup, protect
from jettison.events import Emit
from jettison.runtimes.host.pods import probes
from jettison.runtimes.host.settings import HostSettings
from jettison.runtimes.linux.cgroups.cgroup import Cgroup
from jettison.runtimes.linux.cgroups.mounts import delegated_cgroup, discover

_SWITCH_SECONDS = 0.0005


class HostProtection:
    """In force from `begin` to `end`; what the process took on by itself (locked memory, scores) it keeps."""

    def __init__(self, settings: HostSettings, oom_score_adj: int, emit: Emit) -> None:
        self._own = _own_cgroup(settings)
        self._oom_score_adj = oom_score_adj
        self._emit = emit
        self._imports = LateImports(self._tell, expected=probes.TLS_MODULES)

    def begin(self) -> tuple[str, ...]:
        """To be called when everything is loaded. What is not permitted here, one line each."""
        lack = None if self._own is None else self._own.enter()
        # A thread that reads manifests or answers a client gives the interpreter back when this is over; the 5 ms of
        # Python's own would be added to every reaction meanwhile.
        sys.setswitchinterval(_SWITCH_SECONDS)
        lacks = protect(self._oom_score_adj)
        self._imports.__enter__()
        return lacks if lack is None else (lack, *lacks)

    def end(self) -> None:
        """Back to where we came from, so that nothing of the node is left."""
        self._imports.__exit__()
        lack = None if self._own is None else self._own.leave()
        if lack is not None:
            self._emit(events.ActionFailed("leave no trace", lack))

    def _tell(self, module: str) -> None:
        self._emit(events.ActionFailed("have everything loaded before it is needed", f"`{module}` came late"))


def _own_cgroup(settings: HostSettings) -> OwnCgroup | None:
    """Beside the node's, whose memory is the pods'. In a cgroup that systemd delegated we are by ourselves already."""
    mounts = discover()
    may_have_one = all(os.access(tree.mount_point, os.W_OK) for tree in mounts.used)
    if not settings.uses_cgroups or not may_have_one or mounts.holding("memory") is None or delegated_cgroup(mounts):
        return None
    return OwnCgroup(Cgroup(mounts, f"{settings.node_cgroup}-agent"))
