"""What a command that stays was told, as a value that one process can hand to another.

The first line names the module that carries the orders out (`carry_out`), so that whoever receives them knows what to
load before he can read them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from jettison.engine.scheduling.taints import Taint
from jettison.errors import InputError
from jettison.runtimes.host.settings import HostSettings


@dataclass(frozen=True, slots=True)
class Orders:
    """Checked: whatever is wrong with a command line or a configuration was said before this was made."""

    settings: HostSettings
    # As the journal has it.
    policy: dict[str, Any]
    manifests: list[Path]
    static_manifests: list[Path]
    labels: dict[str, str]
    taints: list[Taint]
    readmits: bool
    is_dry_run: bool
    listen: tuple[str, int] | None
    is_verbose: bool

    def for_node(self, name: str) -> Orders:
        """The same for one of several nodes: each has a name, a directory and a cgroup of its own."""
        settings = self.settings
        node_dir = settings.node_dir / name
        if settings.node_dir.is_relative_to(settings.state_dir / "node" / settings.node_name):
            node_dir = settings.state_dir / "node" / name / "files"
        cgroup = f"{settings.cgroup_name}/{name}" if settings.cgroup_name else ""
        named = replace(settings, node_name=name, node_dir=node_dir, cgroup_name=cgroup)
        return replace(self, settings=named, listen=None)


@dataclass(frozen=True, slots=True)
class JoinOrders:
    """One node, and the API it shall join."""

    node: Orders
    kubeconfig: str = ""
    context: str = ""
    # Where its pods can be reached; empty: the address from which the API is.
    address: str = ""
    # Where it can be asked for logs; 0: one that is free.
    port: int = 0


@dataclass(frozen=True, slots=True)
class ClusterOrders:
    """An API, its controllers and these nodes."""

    nodes: list[Orders]
    listen: tuple[str, int]
    # How many that nodes evicted are kept; None: no limit of their own.
    evicted_pods: int | None = None


AnyOrders = Orders | JoinOrders | ClusterOrders

_DOERS: dict[type[AnyOrders], str] = {Orders: "guard", JoinOrders: "joining", ClusterOrders: "host_cluster"}


def encode_orders(orders: AnyOrders) -> bytes:
    """To be sent."""
    try:
        return _DOERS[type(orders)].encode() + b"\n" + msgspec.json.encode(orders, enc_hook=str)
    except UnicodeEncodeError as error:
        raise InputError(f"`{error.object}` is not UTF-8, and would have to be written into records") from error


def decode_orders(data: bytes) -> AnyOrders:
    """As they were sent."""
    doer, _, rest = data.partition(b"\n")
    kind = next(kind for kind, name in _DOERS.items() if name.encode() == doer)
    return msgspec.json.decode(rest, type=kind, dec_hook=lambda kind, value: kind(value))
