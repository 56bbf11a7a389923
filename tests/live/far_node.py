"""A node beside a live cluster: `jettison node` in a process of its own, of which nothing stays."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from jettison.runtimes.linux.cgroups.cgroup import Cgroup
from jettison.runtimes.linux.cgroups.mounts import discover
from tests.emptying import kill_until_empty
from tests.live.cluster import PODS, LiveCluster
from tests.live.quick_start import Process, jettison

_PATIENCE = 30


@dataclass(frozen=True)
class FarNode:
    """Its directories and its name outlive its process, so that it can come back."""

    cluster: LiveCluster
    directory: Path
    name: str
    flags: Sequence[str] = ()
    # Not where it is seen what the process loads.
    starts_quickly: bool = True

    @property
    def path(self) -> str:
        return f"/api/v1/nodes/{self.name}"

    @property
    def log(self) -> Path:
        return self.directory / "log"

    @contextmanager
    def up(self, how: signal.Signals) -> Iterator[None]:
        """As the administrator, ready, and ended as told."""
        words = ["node", "--kubeconfig", str(self.cluster.served.kubeconfig())]
        words += ["--state-dir", str(self.directory / "state"), "--node-name", self.name, *self.flags]
        with self.log.open("a") as log:
            process: Process = (
                jettison(words, log, is_heard=False)
                if self.starts_quickly
                else subprocess.Popen([sys.executable, "-m", "jettison", *words], stderr=log, stdin=subprocess.DEVNULL)
            )
        try:
            self.cluster.ready(self.path)
            yield
        finally:
            process.send_signal(how)
            process.wait(_PATIENCE)

    def cgroups(self) -> list[Path]:
        """What is left of it, its agent's included."""
        return list(Path("/sys/fs/cgroup").glob(f"*/jettison/{self.name}*"))

    def forget(self) -> None:
        """Whatever went wrong: for 50 s a node that died still counts as ready, and is given the pods of others."""
        for each in self.cluster.pods():
            if each["spec"].get("nodeName") == self.name:
                self.cluster.served.call("DELETE", f"{PODS}/{each['metadata']['name']}?gracePeriodSeconds=0")
        self.cluster.served.call("DELETE", self.path)
        for name in (self.name, f"{self.name}-agent"):
            _sweep(Cgroup(discover(), f"jettison/{name}"))


def _sweep(cgroup: Cgroup) -> None:
    assert not kill_until_empty(cgroup, timeout=_PATIENCE)
    deadline = time.monotonic() + _PATIENCE
    while not cgroup.remove():
        assert time.monotonic() < deadline, f"cannot remove {cgroup.name}"
        time.sleep(0.005)


@contextmanager
def far_node(
    cluster: LiveCluster, directory: Path, flags: Sequence[str], *, starts_quickly: bool = True
) -> Iterator[FarNode]:
    """One that is not up yet, and is not there any more after the body."""
    found = FarNode(cluster, directory, f"{cluster.name}-far", flags, starts_quickly)
    try:
        yield found
    finally:
        found.forget()
