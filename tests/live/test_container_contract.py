"""The contract of every runtime (`tests/runtimes/test_contract.py`), taken by a node whose pods are containers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jettison.clock import Clock, SystemClock
from jettison.engine.pods.pod import Pod
from jettison.manifests.pods import pod_from
from jettison.runtimes.cri.client import CriClient, Listed
from jettison.runtimes.cri.driver import NODE, CriDriver
from jettison.runtimes.host.runtime import HostRuntime
from jettison.runtimes.host.settings import HostSettings
from jettison.runtimes.host.specs.spec import ImageOffer
from jettison.runtimes.protocol import Hosting, PodManifest
from tests.builders import MI
from tests.janitor import fresh_name
from tests.live.containerd import IMAGE, Containerd
from tests.runtimes.test_contract import CONTRACT, RULES, Behaviour, phase_of, until


@dataclass
class BoxSubject:
    """A node of 128 MiB with a container runtime."""

    containerd: Containerd
    patience: float = 60.0
    # What the runtime still has of the node after its end.
    left: tuple[Listed, ...] | None = None

    @asynccontextmanager
    async def opened(self, tmp_path: Path) -> AsyncIterator[Hosting]:
        name = fresh_name()
        self._shared = tmp_path / "shared"
        self._shared.mkdir()
        settings = HostSettings(name, tmp_path / "state", tmp_path / "node", f"jettison-{name}", 128 * MI, 200)
        driver = CriDriver(CriClient(self.containerd.socket), "containerd", name, lambda _fact: None)
        driver.open()
        offer = ImageOffer(is_only=True)
        runtime = await HostRuntime.open(settings, RULES, SystemClock(), lambda _fact: None, driver, offer)
        try:
            yield runtime
        finally:
            for status in runtime.statuses():
                await runtime.stop(status.pod.uid, 0)
            await until(self, lambda: all(runtime.is_finished(status.pod.uid) for status in runtime.statuses()))
            await driver.close()
            await runtime.close()
            client = CriClient(self.containerd.socket)
            self.left = await client.sandboxes({NODE: name})
            client.close()

    async def run(self, runtime: Hosting, name: str, behaviour: Behaviour) -> Pod:
        programs = {
            # Ended by SIGTERM because it is not process 1 of its namespace.
            # Without `touch`, which would be a second process for a moment after the file is there.
            Behaviour.CALM: ": > /shared/ready; exec sleep 600",
            Behaviour.DEAF: "trap '' TERM; touch /shared/ready; exec sleep 600",
            Behaviour.HUNGRY: f"touch /shared/ready; (head -c {104 << 20} /dev/zero; sleep 600) | tail",
        }
        container = {
            "name": "c",
            "image": IMAGE,
            "command": ["/bin/sh", "-c", programs[behaviour]],
            "volumeMounts": [{"name": "shared", "mountPath": "/shared"}],
        }
        document: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
            "spec": {
                "containers": [container],
                "shareProcessNamespace": True,
                "volumes": [{"name": "shared", "hostPath": {"path": str(self._shared)}}],
            },
        }
        wanted = PodManifest(pod_from(document), document, "test")
        await runtime.start(wanted)
        ready = self._shared / "ready"
        await until(self, lambda: phase_of(runtime, wanted.pod) == "Running" and ready.exists())
        return wanted.pod

    def clock(self, runtime: Hosting) -> Clock:
        return SystemClock()


@pytest.mark.parametrize("name", CONTRACT)
def test_containers_keep_the_contract(name: str, containerd: Containerd, tmp_path: Path) -> None:
    """And a node whose pods have gone leaves nothing on the runtime's books."""
    subject = BoxSubject(containerd)
    CONTRACT[name](subject, tmp_path)
    assert subject.left == ()
