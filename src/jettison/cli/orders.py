"""What `up` was told, as a value that one process can hand to another."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from jettison.engine.taints import Taint
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


def encode_orders(orders: Orders) -> bytes:
    """To be sent."""
    return msgspec.json.encode(orders, enc_hook=str)


def decode_orders(data: bytes) -> Orders:
    """As they were sent."""
    return msgspec.json.decode(data, type=Orders, dec_hook=lambda kind, value: kind(value))
