"""The node's pods follow the manifests: started, stopped, and given a second chance."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from jettison.agent.keeper import Keeper
from jettison.agent.sources import ManifestDirectory
from jettison.engine.signals import Condition
from jettison.runtimes.protocol import PodStatus
from tests.agent.test_admission import Door, HostingRuntime


class SlowRuntime(HostingRuntime):
    """Pods take their time to end."""

    def __init__(self) -> None:
        super().__init__()
        self.may_end = asyncio.Event()

    async def stop(self, uid: str, grace_seconds: int | None = None) -> None:
        await self.may_end.wait()
        await super().stop(uid, grace_seconds)


class House:
    """A keeper over one directory."""

    def __init__(self, path: Path, *conditions: Condition, readmits: bool = False) -> None:
        self.path = path
        self.door = Door(*conditions)
        self.runtime = SlowRuntime()
        self.door.admitter.runtime = self.runtime
        self.keeper = Keeper(
            self.runtime,
            self.door.admitter,
            [ManifestDirectory(path, self.door.said.append)],
            self.runtime.clock,
            lambda: frozenset(conditions),
            self.door.said.append,
            readmits=readmits,
        )

    def write(self, name: str, **spec: Any) -> None:
        document = {"kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [{"name": "main"}], **spec}}
        (self.path / f"{name}.json").write_text(json.dumps(document))

    def running(self) -> list[str]:
        return [status.pod.name for status in self.runtime.statuses()]


def test_important_pods_start_first(tmp_path: Path) -> None:
    """On a full node the room goes to critical pods, then to high priorities."""

    async def scenario() -> None:
        house = House(tmp_path)
        house.write("a-low", priority=1)
        house.write("b-high", priority=1000)
        house.write("c-critical", priorityClassName="system-node-critical")
        await house.keeper.look()
        assert house.running() == ["c-critical", "b-high", "a-low"]

    asyncio.run(scenario())


def test_a_slow_goodbye_holds_nobody_up(tmp_path: Path) -> None:
    """While one pod uses its grace period the next look starts another; and nobody is stopped twice."""

    async def scenario() -> None:
        house = House(tmp_path)
        house.write("slow")
        await house.keeper.look()
        (tmp_path / "slow.json").unlink()
        await house.keeper.look()
        house.write("next")
        await house.keeper.look()
        assert house.running() == ["slow", "next"]
        house.runtime.may_end.set()
        await asyncio.sleep(0.01)
        assert house.running() == ["next"]

    asyncio.run(scenario())


def test_an_evicted_pod_gets_another_life(tmp_path: Path) -> None:
    """With --readmit, after its delay and as another pod; the failed one makes room for it."""

    async def scenario() -> None:
        house = House(tmp_path, readmits=True)
        house.write("a")
        await house.keeper.look()
        first = house.runtime.running[0].pod
        house.runtime.running = [PodStatus(first, "Failed", "Evicted")]
        await house.keeper.look()
        assert [status.pod.uid for status in house.runtime.running] == [first.uid]
        house.runtime.clock.pass_seconds(11)
        house.runtime.may_end.set()
        await house.keeper.look()
        await asyncio.sleep(0.01)
        assert [status.pod.uid != first.uid for status in house.runtime.running] == [True]

    asyncio.run(scenario())
