"""The calls of CRI v1 as functions: values in, values out, a deadline for each."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TypeVar

import msgspec

from jettison.errors import ContainerRuntimeError
from jettison.runtimes.containers import is_box_id
from jettison.runtimes.cri.messages import IMAGES, MESSAGES, OF_NODE, OF_POD, RUNTIME, SYSTEMD_DRIVER
from jettison.runtimes.grpc.channel import DEADLINE_EXCEEDED, NOT_FOUND, UNIMPLEMENTED, UNKNOWN, Channel
from jettison.runtimes.grpc.wire import Message, WireError, decode, encode
from jettison.values import frozen

# Seconds. A question takes milliseconds; work on a busy machine takes seconds; a kubelet gives sandboxes 4 minutes.
_QUESTION, _WORK, _SANDBOX, _PULL = 10.0, 60.0, 240.0, 1800.0
# Characters of an id that is none.
_SHOWN = 64


@frozen
class Version:
    """What answers at the socket."""

    name: str
    version: str
    api: str


@frozen
class RuntimeCondition:
    """`RuntimeReady` or `NetworkReady`."""

    kind: str
    is_met: bool
    why: str


@frozen
class StoredImage:
    """One that the runtime has. `user` is None where the image names a user by name, or none at all."""

    id: str
    tags: tuple[str, ...]
    digests: tuple[str, ...]
    size: int
    user: int | None
    user_name: str
    is_pinned: bool


@frozen
class ImageConfig:
    """What an image says about its containers, where the runtime tells."""

    stop_signal: str = ""


@frozen
class FilesystemUse:
    """Where images or writable layers are, and how much they take; the runtime counts every 10 s."""

    path: str
    used_bytes: int | None
    inodes: int | None


@frozen
class Listed:
    """A sandbox or a container in a list."""

    id: str
    state: int
    labels: Mapping[str, str]
    # Empty for a sandbox.
    sandbox: str = ""
    image: str = ""
    created_ns: int = 0
    # Of a sandbox: those of its pod.
    annotations: Mapping[str, str] = field(default_factory=dict)


@frozen
class Status:
    """A container. `pid` is 0 unless it runs and the runtime tells."""

    state: int
    pid: int
    exit_code: int
    reason: str
    message: str


@frozen
class Output:
    """Of a command that was run in a container."""

    exit_code: int
    stdout: bytes
    stderr: bytes


Verbose = TypeVar("Verbose", bound=msgspec.Struct)


class _VerboseWire(msgspec.Struct):
    pid: int = 0


class _ConfigWire(msgspec.Struct):
    sandboxImage: str = ""  # noqa: N815  containerd's name


class _ImageConfigWire(msgspec.Struct):
    StopSignal: str = ""


class _ImageSpecWire(msgspec.Struct):
    config: _ImageConfigWire = msgspec.field(default_factory=_ImageConfigWire)


class _VerboseImageWire(msgspec.Struct):
    imageSpec: _ImageSpecWire = msgspec.field(default_factory=_ImageSpecWire)  # noqa: N815  containerd's name


class _OptionsWire(msgspec.Struct):
    SystemdCgroup: bool = False


class _RuntimeWire(msgspec.Struct):
    options: _OptionsWire | None = None


class _ContainerdWire(msgspec.Struct):
    defaultRuntimeName: str = ""  # noqa: N815
    runtimes: dict[str, _RuntimeWire] = msgspec.field(default_factory=dict)


class _DriverWire(msgspec.Struct):
    containerd: _ContainerdWire = msgspec.field(default_factory=_ContainerdWire)
    systemdCgroup: bool = False  # noqa: N815


class CriClient:
    """One runtime. All calls raise ContainerRuntimeError and UnreachableError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._channel = Channel(path)

    @property
    def pid(self) -> int:
        """The process at the other end; 0 without a connection."""
        return self._channel.pid

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

    async def conditions(self, seconds: float = _QUESTION) -> tuple[RuntimeCondition, ...]:
        """Whether it is ready, in its own words."""
        status = (await self._ask(RUNTIME, "Status", {}, seconds))["status"] or {"conditions": ()}
        return tuple(
            RuntimeCondition(each["type"], each["status"], each["message"] or each["reason"])
            for each in status["conditions"]
        )

    async def sandbox_image(self) -> str:
        """The image that it makes sandboxes of; empty where it does not tell."""
        info = (await self._ask(RUNTIME, "Status", {"verbose": True}))["info"]
        return _verbose(info, _ConfigWire, "config").sandboxImage

    async def uses_systemd(self) -> bool:
        """Whether it has systemd make the cgroups of containers. Older runtimes tell only what people may read."""
        try:
            linux = (await self._ask(RUNTIME, "RuntimeConfig", {}))["linux"]
        except ContainerRuntimeError as error:
            if error.code != UNIMPLEMENTED:
                raise
        else:
            return linux is not None and linux["cgroup_driver"] == SYSTEMD_DRIVER
        info = (await self._ask(RUNTIME, "Status", {"verbose": True}))["info"]
        config = _verbose({"info": info.get("config", "{}")}, _DriverWire)
        default = config.containerd.runtimes.get(config.containerd.defaultRuntimeName)
        has_option = default is not None and default.options is not None and default.options.SystemdCgroup
        return has_option or config.systemdCgroup

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
        return _made((await self._ask(RUNTIME, "RunPodSandbox", request, _SANDBOX))["pod_sandbox_id"], "sandbox")

    async def stop_sandbox(self, sandbox: str) -> None:
        """With everything in it. Harmless when it is stopped or gone."""
        await self._order(RUNTIME, "StopPodSandbox", {"pod_sandbox_id": sandbox})

    async def remove_sandbox(self, sandbox: str) -> None:
        """With its containers. Harmless when it is gone."""
        await self._order(RUNTIME, "RemovePodSandbox", {"pod_sandbox_id": sandbox})

    async def sandbox_network(self, sandbox: str) -> tuple[bool, tuple[str, ...]]:
        """Whether it has a network of its own, and its addresses there."""
        status = (await self._ask(RUNTIME, "PodSandboxStatus", {"pod_sandbox_id": sandbox}))["status"] or {}
        options = ((status.get("linux") or {}).get("namespaces") or {}).get("options") or {}
        if options.get("network", OF_NODE) != OF_POD:
            return False, ()
        network = status.get("network") or {"ip": "", "additional_ips": ()}
        found = (network["ip"], *(each["ip"] for each in network["additional_ips"]))
        return True, tuple(each for each in found if _is_address(each))

    async def sandboxes(self, labels: Mapping[str, str], state: int | None = None) -> tuple[Listed, ...]:
        """Those with these labels, in any state or in one."""
        found = await self._ask(RUNTIME, "ListPodSandbox", {"filter": _filter(labels, state)})
        return tuple(
            Listed(
                each["id"],
                each["state"],
                each["labels"],
                created_ns=each["created_at"],
                annotations=each["annotations"],
            )
            for each in found["items"]
            if is_box_id(each["id"])
        )

    async def create_container(self, sandbox: str, config: Message, sandbox_config: Message) -> str:
        """Its id. Nothing of it runs yet."""
        request = {"pod_sandbox_id": sandbox, "config": config, "sandbox_config": sandbox_config}
        return _made((await self._ask(RUNTIME, "CreateContainer", request, _WORK))["container_id"], "container")

    async def start_container(self, container: str) -> None:
        """Returns when its program runs."""
        await self._ask(RUNTIME, "StartContainer", {"container_id": container}, _WORK)

    async def stop_container(self, container: str, grace: int = 0) -> None:
        """By its stop signal, and after `grace` seconds by SIGKILL. Harmless when it is stopped or gone."""
        await self._order(RUNTIME, "StopContainer", {"container_id": container, "timeout": grace}, grace + _WORK)

    async def remove_container(self, container: str) -> None:
        """Its log stays. Harmless when it is gone."""
        await self._order(RUNTIME, "RemoveContainer", {"container_id": container})

    async def containers(self, labels: Mapping[str, str], state: int | None = None) -> tuple[Listed, ...]:
        """Those with these labels, in any state or in one. One whose id is none cannot be spoken of."""
        found = await self._ask(RUNTIME, "ListContainers", {"filter": _filter(labels, state)})
        return tuple(
            Listed(
                each["id"],
                each["state"],
                each["labels"],
                each["pod_sandbox_id"],
                each["image_id"] or each["image_ref"],
                each["created_at"],
            )
            for each in found["containers"]
            if is_box_id(each["id"])
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

    async def writable_size(self, container: str) -> int | None:
        """Bytes that it has written over its image; None where the runtime does not tell. ContainerStats would need a
        process of the container.
        """
        found = await self._ask(RUNTIME, "ListContainerStats", {"filter": {"id": container}})
        for each in found["stats"]:
            layer, about = each["writable_layer"], each["attributes"]
            if layer is not None and about is not None and about["id"] == container:
                return _filesystem(layer).used_bytes
        return None

    async def run_command(self, container: str, command: Sequence[str], seconds: int) -> Output | None:
        """To its end, which is by force after so many seconds; None then."""
        request = {"container_id": container, "cmd": command, "timeout": seconds}
        try:
            found = await self._ask(RUNTIME, "ExecSync", request, seconds + _QUESTION)
        except ContainerRuntimeError as error:
            if error.code == DEADLINE_EXCEEDED:
                return None
            raise
        # CRI-O's way to say the same; no process ends with such a code.
        return None if found["exit_code"] < 0 else Output(found["exit_code"], found["stdout"], found["stderr"])

    async def exec_url(
        self,
        container: str,
        command: Sequence[str],
        has_terminal: bool,
        has_input: bool,
        has_output: bool,
        has_errors: bool,
    ) -> str:
        """Where a command in the container can be streamed, for one client and a minute."""
        flags = {"tty": has_terminal, "stdin": has_input, "stdout": has_output, "stderr": has_errors}
        return str((await self._ask(RUNTIME, "Exec", {"container_id": container, "cmd": command, **flags}))["url"])

    async def attach_url(
        self, container: str, has_terminal: bool, has_input: bool, has_output: bool, has_errors: bool
    ) -> str:
        """The same for its main process."""
        flags = {"tty": has_terminal, "stdin": has_input, "stdout": has_output, "stderr": has_errors}
        return str((await self._ask(RUNTIME, "Attach", {"container_id": container, **flags}))["url"])

    async def _ask(self, service: str, method: str, request: Message, seconds: float = _QUESTION) -> Message:
        data = await self._channel.call(f"/{service}/{method}", encode(MESSAGES, f"{method}Request", request), seconds)
        try:
            return decode(MESSAGES, f"{method}Response" if f"{method}Response" in MESSAGES else "Nothing", data)
        except WireError as error:
            raise ContainerRuntimeError(f"the answer to {method} cannot be read: {error}", UNKNOWN) from error

    async def _order(self, service: str, method: str, request: Message, seconds: float = _WORK) -> None:
        """What is not there any more is as good as done."""
        try:
            await self._ask(service, method, request, seconds)
        except ContainerRuntimeError as error:
            if error.code != NOT_FOUND:
                raise


def _made(box: str, what: str) -> str:
    """An id that names another directory, such as `../x`, would make a foreign cgroup the container's."""
    if not is_box_id(box):
        shown = f"{box[:_SHOWN]!a}{'…' * (len(box) > _SHOWN)}"
        raise ContainerRuntimeError(f"it has made a {what} whose id is none: {shown}", UNKNOWN)
    return box


def _filter(labels: Mapping[str, str], state: int | None) -> Message:
    return {"label_selector": labels, "state": None if state is None else {"state": state}}


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


def _verbose(info: Mapping[str, str], kind: type[Verbose], key: str = "info") -> Verbose:
    """What a runtime adds for people to read: JSON, by custom. Another one may have none of it."""
    try:
        return msgspec.json.decode(info.get(key, "{}"), type=kind)
    except (msgspec.MsgspecError, UnicodeError):
        return kind()


def _is_address(text: str) -> bool:
    """It is going to be shown, and probes go there."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, text)
        except (OSError, ValueError):
            continue
        return True
    return False


def _filesystem(found: Message) -> FilesystemUse:
    path = (found["fs_id"] or {"mountpoint": ""})["mountpoint"]
    used, inodes = (None if each is None else each["value"] for each in (found["used_bytes"], found["inodes_used"]))
    return FilesystemUse(path, used, inodes)
