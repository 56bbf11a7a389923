"""Files that only their owner may read, written so that a crash leaves the old content or the new, never half of it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from jettison.errors import InputError
from jettison.manifests.plain_files import LARGEST_STATE, read_plain


def make_private_folder(folder: Path) -> None:
    """Create it with mode 0700. One that exists keeps its mode: the operator may have reasons."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot create the folder `{folder}`: {error.strerror}") from error


def write_private(path: Path, content: bytes) -> None:
    """Replace the file as a whole, mode 0600 from its first byte on: there is no moment in which others could read."""
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise InputError(f"cannot write `{path}`: {error.strerror}") from error
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise InputError(f"cannot write `{path}`: {error.strerror}") from error


def read_private(path: Path) -> bytes | None:
    """The content, or None where there is no such file yet."""
    try:
        return read_plain(path, LARGEST_STATE)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"cannot read `{path}`: {error.strerror}") from error
