"""Where a node's state lies and what it is called, unless it is told otherwise.

Apart from `settings`: options of commands need this and nothing else of a node.
"""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

from jettison.errors import InputError


def default_state_dir() -> Path:
    """/var/lib for root, the user's own state directory for every other user."""
    if os.geteuid() == 0:
        return Path("/var/lib/jettison")
    own = os.environ.get("XDG_STATE_HOME")
    try:
        return (Path(own) if own else Path.home() / ".local" / "state") / "jettison"
    except RuntimeError as error:
        raise InputError(
            "there is no home directory: give the directory of the node's state with --state-dir"
        ) from error


def default_node_name() -> str:
    """The host's name, made to fit."""
    return re.sub(r"[^a-z0-9.-]+", "-", socket.gethostname().lower()).strip("-.") or "node"


def absolute(path: Path) -> Path:
    """Paths end up in records that outlive the working directory."""
    try:
        return path.expanduser().resolve()
    except (OSError, RuntimeError) as error:
        raise InputError(f"cannot use `{path}`: {error}") from error
