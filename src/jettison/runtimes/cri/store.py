"""What a CRI runtime keeps on its disk: images, and containers and sandboxes that have ended."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress

from jettison.engine.node.dead_containers import DeadContainer, PodState, Sandbox
from jettison.errors import ContainerRuntimeError
from jettison.runtimes.containers import NO_CONTAINERS, HeldImage
from jettison.runtimes.cri.client import CriClient, StoredImage
from jettison.runtimes.cri.messages import (
    CREATED,
    EXITED,
    IN_UNKNOWN_STATE,
    RUNNING,
    SANDBOX_NOT_READY,
    SANDBOX_READY,
)
from jettison.runtimes.machine.garbage import BuildCache, Leftovers
from jettison.runtimes.machine.node_disks import StorageDirs, told_path

POD, CONTAINER, POD_NAME = "io.kubernetes.pod.uid", "io.kubernetes.container.name", "io.kubernetes.pod.name"
"""Labels of the kubelet's, as tools that look into a runtime expect them."""

# Of an image's names, those that are remembered and shown, and how much of each.
_MOST_NAMES, _LONGEST_NAME = 8, 512


class CriStore:
    """One runtime, whichever program uses it. All calls raise RuntimeFailure."""

    def __init__(self, client: CriClient, name: str) -> None:
        self.client = client
        self.name = name
        # Images by all their names.
        self._aliases: dict[str, str] = {}

    async def storage(self) -> StorageDirs | None:
        """As the runtime names them."""
        images, layers = await self.client.image_filesystems()
        path = told_path(images[0].path) if images else ""
        return StorageDirs(path, (told_path(layers[0].path) if layers else "") or path) if path else None

    async def held_images(self) -> list[HeldImage]:
        """All of them. The image of sandboxes counts as pinned: containerd says so from 1.7 on only, and without it no
        pod starts.
        """
        found, sandbox = await self.client.images(), await self.client.sandbox_image()
        self._aliases = {alias: each.id for each in found for alias in (each.id, *each.tags, *each.digests)}
        pinned = self._aliases.get(sandbox)
        return [
            HeldImage(each.id, _names(each), each.size, each.is_pinned or each.id == pinned)
            for each in found
            if each.id
        ]

    async def used_images(self, without: Collection[str] = NO_CONTAINERS) -> frozenset[str]:
        """By whichever name a container knows its image."""
        found = {each.image for each in await self.client.containers({}) if each.id not in without}
        return frozenset(self._aliases.get(each, each) for each in found)

    async def remove_image(self, image: str) -> None:
        """By its id, with all its names."""
        await self.client.remove_image(image)

    async def leftovers(self) -> Leftovers:
        """Of all pods, whichever program runs them. Of one whose sandbox is ready the last containers stay."""
        containers, sandboxes = await self.client.containers({}), await self.client.sandboxes({})
        living = {each.labels.get(POD, "") for each in sandboxes if each.state == SANDBOX_READY}
        running = {each.sandbox for each in containers if each.state == RUNNING}
        dead = [each for each in containers if each.state not in (RUNNING, CREATED)]
        alive = PodState(is_content_removable=False, is_runtime_removable=False)
        return Leftovers(
            [_dead(each.id, each.labels, each.created_ns, each.state) for each in dead],
            {each.id: _shown(each.labels, each.id) for each in dead},
            [
                Sandbox(each.id, each.labels.get(POD, ""), each.created_ns, _is_active(each.state, each.id in running))
                for each in sandboxes
            ],
            dict.fromkeys(living, alive),
        )

    async def ended(
        self, labels: Mapping[str, str], wanted: Collection[str]
    ) -> tuple[list[DeadContainer], list[Sandbox]]:
        """What carries these labels and does not run. A container that is being made for a wanted pod is left out.

        The runtime is asked for each state by itself: to read what it tells of 110 containers that run, and of their
        sandboxes, takes 40 ms. The sandboxes are all asked for only when one of them is dead.
        """
        lists = [await self.client.containers(labels, state) for state in (CREATED, EXITED, IN_UNKNOWN_STATE)]
        # By id: one may have ended between two answers.
        dead = {
            each.id: _dead(each.id, each.labels, each.created_ns, each.state)
            for found in lists
            for each in found
            if each.state != RUNNING and (each.state != CREATED or each.labels.get(POD) not in wanted)
        }
        if not await self.client.sandboxes(labels, SANDBOX_NOT_READY):
            return list(dead.values()), []
        owners = {each.sandbox for each in await self.client.containers(labels)}
        return list(dead.values()), [
            Sandbox(each.id, each.labels.get(POD, ""), each.created_ns, _is_active(each.state, each.id in owners))
            for each in await self.client.sandboxes(labels)
        ]

    async def written(self, containers: Collection[str]) -> Mapping[str, int]:
        """As the runtime has counted it, which it does every 10 s."""
        found = dict[str, int]()
        for each in containers:
            # For a dead one alone it has no process to ask.
            with suppress(ContainerRuntimeError):
                size = await self.client.writable_size(each)
                found |= {} if size is None else {each: size}
        return found

    async def remove(self, container: DeadContainer) -> None:
        """One in an unknown state is stopped first."""
        if container.is_unknown:
            await self.client.stop_container(container.id)
        await self.client.remove_container(container.id)

    async def remove_sandbox(self, sandbox: Sandbox) -> None:
        """With whatever is in it."""
        await self.end_sandbox(sandbox.id)

    async def end_sandbox(self, sandbox: str) -> None:
        """The same by its id."""
        await self.client.stop_sandbox(sandbox)
        await self.client.remove_sandbox(sandbox)

    async def build_cache(self) -> BuildCache | None:
        """A runtime of pods builds nothing."""
        return None

    async def clear_build_cache(self) -> None:
        """There is none."""

    def let_go(self) -> None:
        """Of the connection."""
        self.client.close()


def _is_active(state: int, has_containers: bool) -> bool:
    return state == SANDBOX_READY or has_containers


def _dead(container: str, labels: Mapping[str, str], created_ns: int, state: int) -> DeadContainer:
    own, name = labels.get(POD, ""), labels.get(CONTAINER, "")
    return DeadContainer(container, own, name, created_ns, state == IN_UNKNOWN_STATE)


def _shown(labels: Mapping[str, str], container: str) -> str:
    pod, name = labels.get(POD_NAME, ""), labels.get(CONTAINER, "")
    return f"{pod}/{name}"[:_LONGEST_NAME] if pod else container[:12]


def _names(image: StoredImage) -> tuple[str, ...]:
    return tuple(name[:_LONGEST_NAME] for name in (image.tags or image.digests)[:_MOST_NAMES])
