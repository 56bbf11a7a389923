"""What a Node object tells of the machine below it."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Final

from jettison import __version__
from jettison.errors import ObservationError
from jettison.runtimes.linux.files import kernel_files

KUBERNETES: Final = "v1.36.4"
"""The release of the kubelet whose part we play: schedulers and clients choose by it what a node can do."""

_GO_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64", "i686": "386", "armv7l": "arm"}


def machine_labels(name: str) -> dict[str, str]:
    """Those that every node has."""
    return {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": _architecture(),
    }


def node_info() -> dict[str, str]:
    """`status.nodeInfo`."""
    machine_id = _line(Path("/etc/machine-id"))
    return {
        "machineID": machine_id,
        "systemUUID": _line(Path("/sys/class/dmi/id/product_uuid")) or machine_id,
        "bootID": _line(Path("/proc/sys/kernel/random/boot_id")),
        "kernelVersion": os.uname().release,
        "osImage": _os_image(),
        "containerRuntimeVersion": f"jettison://{__version__}",
        "kubeletVersion": f"{KUBERNETES}+jettison",
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": _architecture(),
    }


def _os_image() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    except OSError:
        return "Linux"


def _line(path: Path) -> str:
    try:
        return (kernel_files.read(path) or b"").decode("ascii", "replace").strip()
    except ObservationError:  # some are for root alone
        return ""


def _architecture() -> str:
    machine = os.uname().machine
    return _GO_ARCHITECTURES.get(machine, machine)
