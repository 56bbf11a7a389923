"""What a pod has before its containers run: its cgroup, directories, volumes with what they show, images, a sandbox.

Nothing here knows the pod's life; it is told what there is to be supplied, and says what was in the way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from jettison import events
from jettison.engine.lifecycle.state import Trouble
from jettison.errors import ImageError, RuntimeFailure, StartError
from jettison.runtimes.host.pods.containers import Container
from jettison.runtimes.host.specs.content import ContentSpec
from jettison.runtimes.host.specs.spec import (
    FAILED_MOUNT,
    NO_CGROUP,
    NO_SANDBOX,
    ContainerSpec,
    PodSpec,
    no_image,
    not_configured,
    not_mounted,
    not_set_up,
)
from jettison.runtimes.host.specs.volumes import VolumeSpec
from jettison.runtimes.host.volumes import shown_files, volumes
from jettison.runtimes.host.volumes.content import Contents, PodIdentity
from jettison.runtimes.host.volumes.pod_directories import PodDirectories
from jettison.runtimes.machine.background_tasks import in_own_thread
from jettison.runtimes.protocol import PodManifest

_UNSEALABLE = "securityContext.readOnlyRootFilesystem: this node may not mount, so that all files stay writable"


class PodSupplies:
    """Those of one pod."""

    __slots__ = ("_contents", "_directories", "_services", "_stale")

    def __init__(self, directories: PodDirectories, manifest: PodManifest, spec: PodSpec) -> None:
        self._services = directories.services
        self._directories = directories
        # By volume, why it could not be brought up to date.
        self._stale: dict[str, str] = {}
        self.begin_anew(manifest, spec)

    def begin_anew(self, manifest: PodManifest, spec: PodSpec) -> None:
        """For a document that is understood by now."""
        pod, services, directories = manifest.pod, self._services, self._directories
        users = {each.user for each in (*spec.init_containers, *spec.containers)}
        user = users.pop() if len(users) == 1 else None
        identity = PodIdentity(
            pod.namespace, pod.name, pod.uid, spec.account, manifest.origin, manifest.document, user, spec.fs_group
        )
        node, addresses = services.settings.node_name, lambda: directories.addresses
        self._contents = directories.contents = Contents(
            identity, services.configuration, node, services.clock, addresses, services.wait_for
        )

    def know(self, manifest: PodManifest) -> None:
        """Its document has changed; what volumes and variables show of it is that from now on."""
        self._contents.know(manifest.document)

    async def bring(self, spec: PodSpec, containers: Collection[Container]) -> Trouble | None:
        """All of it. What is there already stays."""
        own = [each for each in containers if not each.spec.is_ephemeral]
        if not self._services.has_private_mounts and any(each.spec.security.is_sealed for each in own):
            return not_configured(_UNSEALABLE)
        try:
            await self._services.make(self._services.places.of_pod(self._directories.pod))
        except RuntimeFailure as failure:
            return not_set_up(NO_CGROUP, str(failure))
        try:
            if any(each.host_path_type for each in spec.volumes):
                # Of the threads that all pods share it would keep one for good.
                await in_own_thread(partial(volumes.check_host_paths, spec.volumes))
            self._directories.volumes = await self._services.wait_for(self._furnish, spec, containers)
        except RuntimeFailure as failure:
            return not_set_up(FAILED_MOUNT, str(failure))
        trouble = await self._fill_volumes(spec)
        if trouble is None and spec.is_boxed:
            trouble = await self._provide(spec, own)
        return trouble

    async def bring_for(self, late: ContainerSpec, containers: Collection[Container]) -> None:
        """What an ephemeral container needs beyond that. Raises RuntimeFailure."""
        if late.refusal:
            raise StartError(late.refusal)
        if late.security.is_sealed and not self._services.has_private_mounts:
            raise StartError(_UNSEALABLE)
        await self._services.wait_for(self._build, containers)

    def _furnish(self, spec: PodSpec, containers: Collection[Container]) -> tuple[volumes.Volume, ...]:
        """The pod's directory and its volumes. May wait for a disk."""
        self._build(containers)
        if self._services.has_private_mounts and not spec.is_boxed and not spec.has_host_memory:
            self._directories.shared_memory = volumes.shared_memory(self._directories.volumes_dir)
        return volumes.prepare(self._directories.volumes_dir, spec.volumes, spec.fs_group)

    def _build(self, containers: Collection[Container]) -> None:
        users = {each.spec.security.user for each in containers}
        self._directories.build(user for user in users if user is not None)

    async def _fill_volumes(self, spec: PodSpec) -> Trouble | None:
        """With what the node writes into them. What an earlier agent has written will do until the next look."""
        for volume in spec.volumes:
            if volume.content is None or shown_files.has_content(self._directories.volumes_dir / volume.name):
                continue
            try:
                await self._fill(volume, volume.content, spec.fs_group)
            except RuntimeFailure as failure:
                return not_mounted(volume.name, str(failure))
        return None

    async def _fill(self, volume: VolumeSpec, content: ContentSpec, group: int | None) -> None:
        await self._contents.fill(volume.name, content, self._directories.volumes_dir / volume.name, group)

    async def refresh(self, spec: PodSpec, is_wanted: Callable[[], bool]) -> None:
        """Show what is there now. What cannot be asked for stays as it was, and is told of once."""
        failures: dict[str, str] = {}
        for volume in spec.volumes:
            if volume.content is not None and is_wanted():
                try:
                    await self._fill(volume, volume.content, spec.fs_group)
                except RuntimeFailure as failure:
                    failures[volume.name] = str(failure)
        for name, why in failures.items():
            if self._stale.get(name) != why:
                what = f"bring volume {name} of pod {self._directories.pod} up to date"
                self._services.emit(events.ActionFailed(what, why))
        self._stale = failures

    async def _provide(self, spec: PodSpec, own: Collection[Container]) -> Trouble | None:
        """Images and sandbox, from the container runtime; for containers that run they are there."""
        runtime = self._services.boxes
        if any(each.process is not None for each in own):
            return None
        if runtime is None:
            return not_set_up(NO_SANDBOX, "this node has no container runtime")
        from jettison.runtimes.host.pods.boxes import sandbox_order  # noqa: PLC0415  see Container

        try:
            for each in own:
                if each.spec.image is not None:
                    await runtime.find_image(each.spec.image.name, each.spec.image.pull_policy)
            sandbox = await runtime.sandbox(sandbox_order(self._directories, spec))
            self._directories.addresses = sandbox.addresses
        except ImageError as error:
            return no_image(error)
        except RuntimeFailure as failure:
            return not_set_up(NO_SANDBOX, str(failure))
        return None
