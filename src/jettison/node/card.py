"""`node.json` in a node's state: what commands must know of a node whose agent may be down.

Logs are on nodefs, which the operator may have put anywhere with --node-dir; without this file no command could find
them once the agent is gone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from jettison.errors import ManifestError, ObservationError, WriteError
from jettison.manifests.files.decoding import read_json
from jettison.manifests.files.plain_files import replace_file
from jettison.runtimes.linux.files.kernel_files import reason
from jettison.values import frozen

NAME = "node.json"


@frozen
class NodeCard:
    """Written at every start of the agent."""

    # Relative to the node's state where it lies below it, so that a state directory can be moved or archived.
    node_dir: str
    pid: int
    started_ns: int
    is_dry_run: bool = False
    # What the machine did not permit at that start, one line each.
    lacks: tuple[str, ...] = ()
    # Its pods come from an API.
    is_member: bool = False
    # Whether pods that were evicted are admitted again.
    readmits: bool = False
    # The directories that its pods come from.
    manifests: tuple[str, ...] = ()
    # Where the container runtime keeps images and writable layers; empty where there is none, or it did not answer.
    images_dir: str = ""
    layers_dir: str = ""
    # The policy of that start, as the journal has it.
    policy: dict[str, Any] | None = None
    # Whether its cgroups were slices of systemd: the next agent may find a container runtime that does not answer yet.
    uses_slices: bool = False
    # The container runtime that it was told to use, empty where it was left to find one, and sockets of engines.
    cri_endpoint: str = ""
    sockets: tuple[str, ...] = ()


_DECODER = msgspec.json.Decoder(NodeCard)


def short_path(node_dir: Path, directory: Path) -> str:
    """For `NodeCard.node_dir`."""
    return str(node_dir.relative_to(directory) if node_dir.is_relative_to(directory) else node_dir)


def write_card(directory: Path, card: NodeCard) -> None:
    """Replaced atomically: a command may be reading it."""
    try:
        replace_file(directory / NAME, msgspec.json.encode(card))
    except OSError as error:
        raise WriteError(f"cannot write `{directory / NAME}`: {reason(error)}") from error


def read_card(directory: Path) -> NodeCard | None:
    """None where there is none: the first agent has not come that far yet."""
    path = directory / NAME
    try:
        return read_json(path, _DECODER)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ObservationError(f"cannot read `{path}`: {reason(error)}") from error
    except ManifestError as error:
        raise ObservationError(f"cannot understand {error}") from error
