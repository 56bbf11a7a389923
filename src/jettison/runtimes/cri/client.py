"""The calls of CRI v1 as functions: values in, values out, a deadline for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from jettison.errors import ContainerRuntimeError
from jettison.runtimes.cri.channel import DEADLINE_EXCEEDED, NOT_FOUND, UNIMPLEMENTED, UNKNOWN, Channel
from jettison.runtimes.cri.messages import IMAGES, MESSAGES, RUNTIME
from jettison.runtimes.cri.wire import Message, WireError, decode, encode

# Seconds. A question takes milliseconds; work on a busy machine takes seconds; a kubelet gives sandboxes 4 minutes.
_QUESTION, _WORK, _SANDBOX, _PULL = 10.0, 60.0, 240.0, 1800.0


@dataclass(frozen=True, slots=True)
class Version:
    """What answers at the socket."""

    name: str
    version: str
    api: str


@dataclass(frozen=True, slots=True)
class RuntimeCondition:
    """`RuntimeReady` or `NetworkReady`."""

    kind: str
    is_met: bool
    why: str


@dataclass(frozen=True, slots=True)
class StoredImage:
    """One that the runtime has. `user` is None where the image names a user by name, or none at all."""

    id: str
    tags: tuple[str, ...]
    digests: tuple[str, ...]
    size: int
    user: int | None
    user_name: str
    is_pinned: bool


@dataclass(frozen=True, slots=True)
class ImageConfig:
    """What an image says about its containers, where the runtime tells."""

    stop_signal: str = ""


@dataclass(frozen=True, slots=True)
class FilesystemUse:
    """Where images or writable layers are, and how much they take; the runtime counts every 10 s."""

    path: str
    used_bytes: int | None
    inodes: int | None


@dataclass(frozen=True, slots=True)
class Listed:
    """A sandbox or a container in a list."""

    id: str
    state: int
    labels: Mapping[str, str]
    # Empty for a sandbox.
    sandbox: str = ""
    image: str = ""
    created_ns: int = 0


@dataclass(frozen=True, slots=True)
class Status:
    """A container. `pid` is 0 unless it runs and the runtime tells."""

    state: int
    pid: int
    exit_code: int
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Output:
    """Of a command that was run in a container."""

    exit_code: int
    stdout: bytes
    stderr: bytes


Verbose = TypeVar("Verbose", bound=msgspec.Struct)


class _VerboseWire(msgspec.Struct):
    pid: int = 0


class _ImageConfigWire(msgspec.Struct):
    StopSignal: str = ""


class _ImageSpecWire(msgspec.Struct):
    config: _ImageConfigWire = msgspec.field(default_factory=_ImageConfigWire)


class _VerboseImageWire(msgspec.Struct):
    imageSpec: _ImageSpecWire = msgspec.field(default_factory=_ImageSpecWire)  # noqa: N815  containerd's name


class CriClient:
    """One runtime. All calls raise ContainerRuntimeError and UnreachableError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._channel = Channel(path)

    def close(self) -> None:
        """Calls that are under way fail."""
        self._channel.close()

    async def version(self, seconds: float = _QUESTION) -> Version:
        """Which runtime answers. A runtime without CRI v1 is named as such."""
        try:
            found = await self._ask(RUNTIME, "Version", {}, seconds)
        except ContainerRuntimeError as error:
            if error.code == UNIMPLEMENTED:
                what = f"container runtime `{self.path}` does not serve CRI v1, which is needed: {error}"
                raise ContainerRuntimeError(what, error.code) from error
            raise
        return Version(found["runtime_name"], found["runtime_version"], found["runtime_api_version"])

    async def conditions(self) -> tuple[RuntimeCondition, ...]:
        """Whether it is ready, in its own words."""
        status = (await self._ask(RUNTIME, "Status", {}))["status"] or {"conditions": ()}
        return tuple(
            RuntimeCondition(each["type"], each["status"], each["message"] or each["reason"])
            for each in status["conditions"]
        )

    async def images(self) -> tuple[StoredImage, ...]:
        """All of them."""
        return tuple(_image(each) for each in (await self._ask(IMAGES, "ListImages", {}))["images"])

    async def image(self, name: str) -> tuple[StoredImage, ImageConfig] | None:
        """By name or id; None where the runtime does not have it."""
        found = await self._ask(IMAGES, "ImageStatus", {"image": {"image": name}, "verbose": True})
        if found["image"] is None:
            return None
        return _image(found["image"]), _image_config(found["info"])

    async def pull_image(self, name: str, seconds: float = _PULL) -> str:
        """Its reference, by which containers are made."""
        return str((await self._ask(IMAGES, "PullImage", {"image": {"image": name}}, seconds))["image_ref"])

    async def remove_image(self, name: str) -> None:
        """Also one that is in use: the runtime does not ask. Harmless for an unknown one."""
        await self._order(IMAGES, "RemoveImage", {"image": {"image": name}})

    async def image_filesystems(self) -> tuple[tuple[FilesystemUse, ...], tuple[FilesystemUse, ...]]:
        """Of images, and of writable layers; the latter is empty where the runtime makes no difference."""
        found = await self._ask(IMAGES, "ImageFsInfo", {})
        parts = (found["image_filesystems"], found["container_filesystems"])
        images, layers = (tuple(_filesystem(each) for each in part) for part in parts)
        return images, layers

    async def run_sandbox(self, config: Message, handler: str = "") -> str:
        """Its id."""
        request = {"config": config, "runtime_handler": handler}
        return str((await self._ask(RUNTIME, "RunPodSandbox", request, _SANDBOX))["pod_sandbox_id"])

    async def stop_sandbox(self, sandbox: str) -> None:
        """With everything in it. Harmless when it is stopped or gone."""
        await self._order(RUNTIME, "StopPodSandbox", {"pod_sandbox_id": sandbox})

    async def remove_sandbox(self, sandbox: str) -> None:
        """With its containers. Harmless when it is gone."""
        await self._order(RUNTIME, "RemovePodSandbox", {"pod_sandbox_id": sandbox})

    async def sandboxes(self, labels: Mapping[str, str]) -> tuple[Listed, ...]:
        """Those with these labels."""
        found = await self._ask(RUNTIME, "ListPodSandbox", {"filter": {"label_selector": labels}})
        return tuple(
            Listed(each["id"], each["state"], each["labels"], created_ns=each["created_at"]) for each in found["items"]
        )

    async def create_container(self, sandbox: str, config: Message, sandbox_config: Message) -> str:
        """Its id. Nothing of it runs yet."""
        request = {"pod_sandbox_id": sandbox, "config": config, "sandbox_config": sandbox_config}
        return str((await self._ask(RUNTIME, "CreateContainer", request, _WORK))["container_id"])

    async def start_container(self, container: str) -> None:
        """Returns when its program runs."""
        await self._ask(RUNTIME, "StartContainer", {"container_id": container}, _WORK)

    async def stop_container(self, container: str, grace: int = 0) -> None:
        """By its stop signal, and after `grace` seconds by SIGKILL. Harmless when it is stopped or gone."""
        await self._order(RUNTIME, "StopContainer", {"container_id": container, "timeout": grace}, grace + _WORK)

    async def remove_container(self, container: str) -> None:
        """Its log stays. Harmless when it is gone."""
        await self._order(RUNTIME, "RemoveContainer", {"container_id": container})

    async def containers(self, labels: Mapping[str, str]) -> tuple[Listed, ...]:
        """Those with these labels, whatever their state."""
        found = await self._ask(RUNTIME, "ListContainers", {"filter": {"label_selector": labels}})
        return tuple(
            Listed(
                each["id"],
                each["state"],
                each["labels"],
                each["pod_sandbox_id"],
                each["image_ref"],
                each["created_at"],
            )
            for each in found["containers"]
        )

    async def status(self, container: str) -> Status | None:
        """None where there is no such container."""
        try:
            found = await self._ask(RUNTIME, "ContainerStatus", {"container_id": container, "verbose": True})
        except ContainerRuntimeError as error:
            if error.code == NOT_FOUND:
                return None
            raise
        status = found["status"]
        if status is None:
            return None
        pid = _pid(found["info"])
        return Status(status["state"], pid, status["exit_code"], status["reason"], status["message"])

    async def run_command(self, container: str, command: Sequence[str], seconds: int) -> Output | None:
        """To its end, which is by force after so many seconds; None then."""
        request = {"container_id": container, "cmd": command, "timeout": seconds}
        try:
            found = await self._ask(RUNTIME, "ExecSync", request, seconds + _QUESTION)
        except ContainerRuntimeError as error:
            if error.code == DEADLINE_EXCEEDED:
                return None
            raise
        return Output(found["exit_code"], found["stdout"], found["stderr"])

    async def _ask(self, service: str, method: str, request: Message, seconds: float = _QUESTION) -> Message:
        data = await self._channel.call(f"/{service}/{method}", encode(f"{method}Request", request), seconds)
        try:
            return decode(f"{method}Response" if f"{method}Response" in MESSAGES else "Nothing", data)
        except WireError as error:
            raise ContainerRuntimeError(f"the answer to {method} cannot be read: {error}", UNKNOWN) from error

    async def _order(self, service: str, method: str, request: Message, seconds: float = _WORK) -> None:
        """What is not there any more is as good as done."""
        try:
            await self._ask(service, method, request, seconds)
        except ContainerRuntimeError as error:
            if error.code != NOT_FOUND:
                raise


def _image(found: Message) -> StoredImage:
    user = found["uid"]
    return StoredImage(
        found["id"],
        tuple(found["repo_tags"]),
        tuple(found["repo_digests"]),
        found["size"],
        None if user is None else user["value"],
        found["username"],
        found["pinned"],
    )


def _image_config(info: Mapping[str, str]) -> ImageConfig:
    return ImageConfig(_verbose(info, _VerboseImageWire).imageSpec.config.StopSignal)


def _pid(info: Mapping[str, str]) -> int:
    return _verbose(info, _VerboseWire).pid


def _verbose(info: Mapping[str, str], kind: type[Verbose]) -> Verbose:
    """What a runtime adds for people to read: JSON, by custom. Another one may have none of it."""
    try:
        return msgspec.json.decode(info.get("info", "{}"), type=kind)
    except (msgspec.MsgspecError, UnicodeError):
        return kind()


def _filesystem(found: Message) -> FilesystemUse:
    path = (found["fs_id"] or {"mountpoint": ""})["mountpoint"]
    used, inodes = (None if each is None else each["value"] for each in (found["used_bytes"], found["inodes_used"]))
    return FilesystemUse(path, used, inodes)
