"""`--history FILE`: what one call remembers for the next."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from jettison.cli.policy.node_input import shown
from jettison.engine.node.pressure import History
from jettison.errors import InputError, WriteError
from jettison.manifests.files.plain_files import LARGEST_STATE, read_plain
from jettison.manifests.history import SavedHistory, encode_history, parse_history
from jettison.runtimes.linux.files.kernel_files import reason


def load_history(path: str, node: str) -> History:
    """The history in the file; an empty one if there is no file yet. Another node's history is refused."""
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):
            # It will be replaced, and root could replace /dev/null.
            raise InputError(f"--history: `{shown(path)}` is not a regular file")
        saved = parse_history(read_plain(Path(path), LARGEST_STATE), shown(path))
    except FileNotFoundError:
        return History()
    except OSError as error:
        raise InputError(f"cannot read `{shown(path)}`: {reason(error)}") from error
    if saved.node and node and saved.node != node:
        raise InputError(f"--history: `{shown(path)}` is about node `{saved.node}`, the summary about `{node}`")
    return saved.history


def save_history(path: str, history: History, node: str) -> None:
    """Atomically: a reader finds the old history or the new one, also after a crash."""
    target = Path(path).resolve()
    temporary: Path | None = None
    try:
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o644
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        temporary = Path(name)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(encode_history(SavedHistory(history, node)))
            file.flush()
            os.fsync(descriptor)
        temporary.replace(target)
    except OSError as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        raise WriteError(f"cannot write `{shown(path)}`: {reason(error)}") from error
