"""Reading manifests in a child: what comes back, and what a file can do to the process that reads it."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jettison.agent.pods.manifest_reader import Documents, ManifestReader
from jettison.agent.self_protection import LateImports
from jettison.errors import ManifestError, ObservationError

POD = "kind: Pod\nmetadata: {name: ä, labels: {1: yes}}\n"


# Parsers that an attacker would wish for.
ODD = "tests.agent.pods.odd_readers"

Read = Callable[[str, str], Documents]


def from_files(reader: ManifestReader, directory: Path) -> Read:
    """Writes a file and has it read."""

    def read(text: str, name: str) -> Documents:
        path = directory / name
        path.write_text(text)
        found = reader.read(str(path), name)
        assert found is not None
        return found.documents

    return read


@pytest.fixture
def read(tmp_path: Path) -> Iterator[Read]:
    with ManifestReader() as reader:
        yield from_files(reader, tmp_path)


def children() -> list[str]:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


def test_one_child_reads_all_and_is_gone_afterwards(tmp_path: Path) -> None:
    before = children()
    with ManifestReader() as reader:
        assert children() == before
        read = from_files(reader, tmp_path)
        first = read(POD, "a.yaml")
        during = children()
        assert read('{"kind": "Pod", "spec": {}}' + " " * 200_000, "b.json") == [{"kind": "Pod", "spec": {}}]
        assert children() == during
    assert first == [{"kind": "Pod", "metadata": {"name": "ä", "labels": {"1": True}}}]
    assert len(during) == len(before) + 1
    assert children() == before


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("kind: [", r"a.yaml:\d: "),
        ("- 1", "a.yaml: a document has no kind"),
        ("{kind: Pod, ~: 1}", "a.yaml: a NoneType cannot be a key"),
    ],
)
def test_a_mistake_is_told_and_the_next_file_is_read(read: Read, text: str, why: str) -> None:
    with pytest.raises(ManifestError, match=why):
        read(text, "a.yaml")
    assert read("kind: Pod", "b.yaml") == [{"kind": "Pod"}]


def test_a_file_that_crashes_its_reader_is_a_bad_file(tmp_path: Path) -> None:
    with ManifestReader(program=f"{ODD}:crash") as reader:
        read = from_files(reader, tmp_path)
        for _ in range(2):
            with pytest.raises(ManifestError, match=r"a\.yaml: the process that reads it crashes, exit code -11"):
                read("kind: Pod", "a.yaml")


def test_a_reader_that_was_killed_may_be_tried_again(read: Read) -> None:
    """By the kernel, for want of memory: that is not the file's fault."""
    before = set(children())
    read("kind: Pod", "a.yaml")
    (child,) = set(children()) - before
    os.kill(int(child), signal.SIGKILL)
    with pytest.raises(ObservationError, match=r"b\.yaml: the process that read it was killed"):
        read("kind: Pod", "b.yaml")
    assert read("kind: Pod", "c.yaml") == [{"kind": "Pod"}]


def test_what_the_child_loads_is_nobodys_late_import(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    late: list[str] = []
    for name in ("yaml", "jettison.manifests.files.document_files"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with LateImports(late.append, is_strict=True), ManifestReader() as reader:
        assert from_files(reader, tmp_path)("kind: Pod", "a.yaml") == [{"kind": "Pod"}]
    assert "yaml" not in sys.modules
    assert late == []


def test_without_a_process_it_may_be_tried_again(monkeypatch: pytest.MonkeyPatch, read: Read) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(sys, "executable", "/nowhere/python")
        with pytest.raises(ObservationError, match=r"a\.yaml: no process to read it: no such file or directory"):
            read("kind: Pod", "a.yaml")
    assert read("kind: Pod", "a.yaml") == [{"kind": "Pod"}]


def test_a_file_that_takes_too_long_is_a_bad_file(tmp_path: Path) -> None:
    """Of the processor's time, not of the clock's: on a starving node every file takes long."""
    said = "takes more than 1 s of processor time"
    reader = ManifestReader(processor_seconds=1, program=f"{ODD}:burn")
    with reader, pytest.raises(ManifestError, match=said):
        from_files(reader, tmp_path)("kind: Pod", "a.yaml")


def test_a_file_that_takes_too_much_memory_is_a_bad_file(tmp_path: Path) -> None:
    reader = ManifestReader(program=f"{ODD}:take_memory")
    with reader, pytest.raises(ManifestError, match="takes more than 536870912 bytes of memory"):
        from_files(reader, tmp_path)("kind: Pod", "a.yaml")


def test_what_is_no_file_is_said(tmp_path: Path) -> None:
    with ManifestReader() as reader:
        assert reader.read(str(tmp_path / "gone"), "gone") is None
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(ManifestError, match="not a plain file"):
            reader.read(str(tmp_path / "pipe"), "pipe")
        odd = os.fsencode(tmp_path) + b"/\xff.yaml"
        Path(os.fsdecode(odd)).mkdir()
        with pytest.raises(ManifestError, match="not a plain file"):
            reader.read(os.fsdecode(odd), "shown")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (json.dumps({"kind": "Pod", "a": ["x" * 300_000]}), "more than 262144 bytes"),
        # As JSON each of these is six bytes.
        (json.dumps({"kind": "Pod", "apiVersion": "\x01" * 100_000}), "600030 bytes as JSON, at most 262144"),
        (json.dumps({"kind": "Pod", "a": [0] * 5000}), "more than 4000 values"),
        (json.dumps({"kind": "List", "items": [{"kind": "Pod"}] * 501}), "501 documents, at most 500"),
        (json.dumps({"kind": "List", "items": [{"kind": "Pod", "a": [0] * 3000}] * 4}), "a file has at most 10000"),
        (" " * 2**20 + "kind: Pod", "more than 1048576 bytes"),
    ],
)
def test_a_file_that_says_too_much_is_refused_with_the_bound(read: Read, text: str, why: str) -> None:
    with pytest.raises(ManifestError, match=why):
        read(text, "a.yaml")
