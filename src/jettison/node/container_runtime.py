"""The container runtime of a node: which socket, whether it answers as it should, and what it is offered for.

`runtimes/cri` and `runtimes/host` do not know one another; they meet here.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from jettison.errors import InputError, ObservationError, RuntimeFailure, ServeError, StartError
from jettison.events import Emit
from jettison.node.card import read_card
from jettison.node.settings import CRI, HOST, NodeSettings, checked_endpoint
from jettison.runtimes.containers import RUNTIME_PACE, RuntimePace
from jettison.runtimes.host.cgroups.kubepods import has_pods
from jettison.runtimes.host.specs.spec import ImageOffer

if TYPE_CHECKING:
    from jettison.runtimes.cri.driver import CriDriver

USUAL_SOCKETS = (Path("/run/containerd/containerd.sock"), Path("/run/crio/crio.sock"))

# There where systemd is process 1.
_SYSTEMD = Path("/run/systemd/system")
_UNKNOWN_DRIVER = (
    ". Its cgroup driver is not known, so cgroups are made without systemd; cgroupDriver in the configuration says "
    "which it has"
)
_LOAD_SECONDS = 1800
_LONGEST_VERSION = 100
_MOST_NAMES, _LONGEST_NAME = 64, 512
# The one in which containerd keeps what CRI sees.
_NAMESPACE = "k8s.io"
_OK = 200
_PROGRAMS = {"ctr": "comes with containerd", "podman": "can write where CRI-O keeps images"}


class Containers(NamedTuple):
    """What a node has: a driver and an offer, or neither; `lack` says why not, where that is worth saying."""

    driver: CriDriver | None = None
    offer: ImageOffer | None = None
    lack: str = ""
    # Whether the node's cgroups are slices of systemd.
    uses_slices: bool = False
    # The runtime as a Node shows it; empty where it was silent at the start.
    version: str = ""


async def find_containers(
    settings: NodeSettings, emit: Emit, *, pace: RuntimePace = RUNTIME_PACE, systemd: Path = _SYSTEMD
) -> Containers:
    """What the settings ask for. Raises ServeError where containers are required and none can be had.

    A runtime whose socket is there and that does not answer is not given up where it is one of several kinds: it may
    be starting. Its pods wait for it.
    """
    socket, running = _socket(settings), _slices_of_pods(settings)
    if settings.runtime == HOST or socket is None:
        return Containers(uses_slices=bool(running))
    if importlib.util.find_spec("h2") is None:
        return _refused(settings, running, "containers need h2, which is not installed: pip install 'jettison[cri]'")
    # Loaded only where it is needed: it costs 2 MB.
    from jettison.runtimes.cri.client import CriClient  # noqa: PLC0415
    from jettison.runtimes.cri.driver import CriDriver  # noqa: PLC0415
    from jettison.runtimes.cri.messages import CRIO  # noqa: PLC0415

    client, name, shown, lack = CriClient(socket), f"container runtime `{socket}`", "", ""
    has_systemd = systemd.is_dir()
    before = _slices_before(settings, has_systemd=has_systemd) if running is None else running
    is_first = before is None and has_systemd and settings.runtime != CRI
    try:
        version = await client.version(pace.first_answer if is_first else pace.answer)
        name, shown = f"{version.name} {version.version}", f"{version.name}://{version.version}"[:_LONGEST_VERSION]
    except RuntimeFailure as failure:
        if settings.runtime == CRI:
            client.close()
            raise ServeError(f"--runtime cri: {failure}") from failure
        lack = f"{failure}; pods with images wait for it{_UNKNOWN_DRIVER if is_first else ''}"
    driver, told = CriDriver(client, name, settings.node_cgroup, emit, pace=pace), None
    if not lack:
        try:
            told = await client.uses_systemd()
            await driver.look_at_network()
        except RuntimeFailure as failure:
            lack = f"{failure}; whether pods can have a network of their own is looked at again"
    if told and not has_systemd:
        client.close()
        advice = 'cgroup_manager = "cgroupfs"' if version.name == CRIO else "SystemdCgroup = false"
        return _refused(settings, running, f"{name} leaves cgroups to systemd, which does not run here: set {advice}")
    driver.uses_systemd = bool(before if told is None or running is not None else told)
    if told is not None:
        driver.compare_cgroups(uses_systemd=told)
    driver.open()
    offer = ImageOffer(settings.runtime == CRI, settings.allow_privileged)
    return Containers(driver, offer, lack, driver.uses_systemd, shown)


def _slices_of_pods(settings: NodeSettings) -> bool | None:
    """Whether pods of the last agent live in slices; None where none lives.

    They decide, whatever the runtime has by now: in cgroups of the other kind they would not be found, so they would be
    measured no more, and an eviction would leave processes behind.
    """
    kinds = (are_slices for are_slices in (False, True) if has_pods(replace(settings, uses_slices=are_slices)))
    return next(kinds, None)


def _slices_before(settings: NodeSettings, *, has_systemd: bool) -> bool | None:
    """What to go by as long as the runtime does not tell; None where that is not known.

    As it was, because after a boot the runtime comes later than we do; else as the operator says, as for a kubelet.
    """
    try:
        card = read_card(settings.node_state)
    except ObservationError:
        card = None
    config = settings.policy.config
    if card is not None:
        return card.uses_slices and has_systemd
    if "cgroupDriver" in config.origins:
        return config.cgroup_driver == "systemd" and has_systemd
    return None


def _refused(settings: NodeSettings, running: bool | None, why: str) -> Containers:
    if settings.runtime == CRI:
        raise ServeError(why)
    return Containers(lack=f"{why}; pods with images run as processes", uses_slices=bool(running))


def _socket(settings: NodeSettings) -> Path | None:
    if settings.runtime == HOST:
        if settings.cri_endpoint:
            raise InputError("--cri-endpoint names a container runtime, which --runtime host does not use")
        return None
    try:
        return find_socket(settings.cri_endpoint)
    except ServeError:
        if settings.runtime == CRI:
            raise
        return None


def find_socket(endpoint: str) -> Path:
    """The one that is named, or the first that is where runtimes usually have theirs. Raises ServeError."""
    if endpoint:
        return checked_endpoint(endpoint)
    found = next(filter(_is_socket, USUAL_SOCKETS), None)
    if found is None:
        places = ", ".join(map(str, USUAL_SOCKETS))
        raise ServeError(f"no container runtime at {places}; --cri-endpoint names another socket")
    return found


def usual_offer() -> ImageOffer | None:
    """What a node of this machine would probably be offered, for a command that only looks at manifests."""
    return ImageOffer(allows_privileged=True) if any(map(_is_socket, USUAL_SOCKETS)) else None


def _is_socket(path: Path) -> bool:
    try:
        return path.is_socket()
    except OSError:
        return False  # a user that may not look there may not ask the runtime either


class ImageRow(NamedTuple):
    """An image that the runtime has. One without a name was replaced by another of its name."""

    names: tuple[str, ...]
    id: str
    size: int


async def list_images(socket: Path) -> tuple[ImageRow, ...]:
    """All of them."""
    from jettison.runtimes.cri.client import CriClient  # noqa: PLC0415

    client = CriClient(socket)
    try:
        found = await client.images()
    finally:
        client.close()
    return tuple(
        ImageRow(_shown(each.tags or each.digests), each.id.removeprefix("sha256:"), each.size) for each in found
    )


def _shown(names: Sequence[str]) -> tuple[str, ...]:
    """What a runtime says may be anything; the longest name that a registry takes has some 330 characters."""
    return tuple(name[:_LONGEST_NAME] for name in names[:_MOST_NAMES]) or ("<none>",)


async def load_images(socket: Path, archive: Path) -> tuple[str, ...]:
    """Import an archive; returns the names of what was in it. CRI has no call for that.

    containerd's own program does it, and podman where CRI-O keeps its images. Raises RuntimeFailure.
    """
    from jettison.runtimes.cri.client import CriClient  # noqa: PLC0415
    from jettison.runtimes.cri.messages import CRIO  # noqa: PLC0415

    client, path = CriClient(socket), str(archive.resolve())
    try:
        is_crio = (await client.version(RUNTIME_PACE.answer)).name == CRIO
    finally:
        client.close()
    if is_crio:
        lines = _ordered([*podman_order(await _crio_config(socket)), "load", "--quiet", "--input", path], archive)
        found = (line.partition(": ") for line in lines)
        return tuple(name.strip() for kind, _, name in found if kind.startswith("Loaded image"))
    command = ["ctr", "--address", str(socket), "--namespace", _NAMESPACE, "images", "import", path]
    words = (line.split() for line in _ordered(command, archive))
    return tuple(each[1] for each in words if len(each) > 1 and each[0] == "unpacking")


async def _crio_config(socket: Path) -> bytes:
    # Docker and Podman are asked in the same way.
    from jettison.runtimes.adopted.engine_socket import EngineSocket  # noqa: PLC0415

    status, body = await EngineSocket(socket, frozenset({0, os.geteuid()})).exchange("GET", "/config")
    if status != _OK:
        raise StartError(f"cannot load images: `{socket}` does not tell where CRI-O keeps them (status {status})")
    return body


def podman_order(config: bytes) -> list[str]:
    """The beginning of an order to podman that means CRI-O's storage. Raises StartError."""
    import tomllib  # noqa: PLC0415

    try:
        told = tomllib.loads(config.decode())["crio"]
        words = ["podman", "--root", told["root"], "--runroot", told["runroot"]]
        words += ["--storage-driver", told["storage_driver"]] if told["storage_driver"] else []
        words += ["--imagestore", told["imagestore"]] if told.get("imagestore") else []
        for option in told.get("storage_option") or ():
            words += ["--storage-opt", option]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise StartError("cannot load images: CRI-O does not tell where it keeps them") from error
    if not all(isinstance(word, str) and "\0" not in word for word in words):
        raise StartError("cannot load images: CRI-O does not tell where it keeps them")
    return words


def _ordered(command: Sequence[str], archive: Path) -> list[str]:
    """The lines that a program of the runtime prints. Raises StartError."""
    program = command[0]
    try:
        done = subprocess.run(  # noqa: S603  a program of the machine, with paths that were named on the command line
            command, capture_output=True, text=True, errors="backslashreplace", timeout=_LOAD_SECONDS, check=True
        )
    except FileNotFoundError as error:
        raise StartError(f"cannot load images: `{program}` is missing, which {_PROGRAMS[program]}") from error
    except subprocess.TimeoutExpired as error:
        raise StartError(f"cannot load `{archive}`: `{program}` has not ended within {_LOAD_SECONDS} s") from error
    except subprocess.CalledProcessError as error:
        lines = error.stderr.strip().splitlines() or [f"exit code {error.returncode}"]
        raise StartError(f"cannot load `{archive}`: {lines[-1].removeprefix(f'{program}: ')}") from error
    return done.stdout.splitlines()
