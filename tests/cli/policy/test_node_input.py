"""`--history FILE`: read if it is there, replaced in one go, never anything but a regular file."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from jettison.cli.policy.node_input import load_history, save_history
from jettison.engine.node.pressure import History
from jettison.errors import InputError, ManifestError, WriteError
from tests.cli.running import DISK, MEMORY, process, run

KNOWING = History(knows_layout=True)


def test_no_file_is_an_empty_history(tmp_path: Path) -> None:
    assert load_history(str(tmp_path / "none.json"), "n") == History()


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "h.json"
    save_history(str(path), KNOWING, "n")

    assert load_history(str(path), "n") == KNOWING
    assert list(tmp_path.iterdir()) == [path]
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_the_mode_of_the_file_and_a_link_to_it_are_kept(tmp_path: Path) -> None:
    path, link = tmp_path / "h.json", tmp_path / "link.json"
    save_history(str(path), History(), "n")
    path.chmod(0o600)
    link.symlink_to(path)

    save_history(str(link), KNOWING, "n")

    assert link.is_symlink()
    assert load_history(str(path), "n") == KNOWING
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_another_nodes_history_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "h.json")
    assert run("decide", *MEMORY, "--history", path).exit_code == 0

    result = run("decide", *DISK, "--history", path)

    assert result.exit_code == 2
    assert result.stderr.endswith(
        f"error: --history: `{path}` is about node `worker-1`, the summary about `worker-7`\n"
    )


@pytest.mark.parametrize("path", ["/dev/null", "/"])
def test_only_a_regular_file_will_do(path: str) -> None:
    with pytest.raises(InputError, match="is not a regular file"):
        load_history(path, "n")


def test_what_is_no_history_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "precious.txt"
    path.write_text("my diary")

    with pytest.raises(ManifestError, match="JSON is malformed"):
        load_history(str(path), "n")
    assert run("decide", *MEMORY, "--history", str(path)).exit_code == 2
    assert path.read_text() == "my diary"


def test_a_history_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "h.json"
    with pytest.raises(WriteError):
        save_history(str(path), History(), "n")

    done = process("decide", *MEMORY, "--history", str(path))

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"error: cannot write `{path}`: no such file or directory\n"


def test_a_full_disk_leaves_the_old_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "h.json"
    save_history(str(path), KNOWING, "n")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WriteError, match="no space left on device"):
        save_history(str(path), History(), "n")

    assert load_history(str(path), "n") == KNOWING
    assert list(tmp_path.iterdir()) == [path]
