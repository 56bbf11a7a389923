"""Reading manifests in a child: what comes back, and what a file can do to whoever reads it."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jettison.agent import manifest_reader
from jettison.agent.late_imports import LateImports
from jettison.agent.manifest_reader import ManifestReader
from jettison.errors import ManifestError, ObservationFailed
from jettison.manifests import document_files

POD = "kind: Pod\nmetadata: {name: ä, labels: {1: yes}}\n"


@pytest.fixture
def reader() -> Iterator[ManifestReader]:
    with ManifestReader() as found:
        yield found


def children() -> list[str]:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


def test_one_child_reads_all_and_is_gone_afterwards() -> None:
    before = children()
    with ManifestReader() as reader:
        assert children() == before
        first = reader.parse(POD, "a.yaml")
        during = children()
        assert reader.parse('{"kind": "Pod", "spec": {}}' + " " * 200_000, "b.json") == [{"kind": "Pod", "spec": {}}]
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
def test_a_mistake_is_told_and_the_next_file_is_read(reader: ManifestReader, text: str, why: str) -> None:
    with pytest.raises(ManifestError, match=why):
        reader.parse(text, "a.yaml")
    assert reader.parse("kind: Pod", "b.yaml") == [{"kind": "Pod"}]


def test_a_file_that_crashes_its_reader_is_a_bad_file(monkeypatch: pytest.MonkeyPatch, reader: ManifestReader) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(document_files, "parse_documents", lambda *_: ctypes.string_at(0))
        with pytest.raises(ManifestError, match=r"a\.yaml: whoever reads it dies of it, exit code -11"):
            reader.parse("kind: Pod", "a.yaml")
    assert reader.parse("kind: Pod", "b.yaml") == [{"kind": "Pod"}]


def test_a_reader_that_was_killed_may_be_tried_again(reader: ManifestReader) -> None:
    """By the kernel, for want of memory: that is not the file's fault."""
    before = set(children())
    reader.parse("kind: Pod", "a.yaml")
    (child,) = set(children()) - before
    os.kill(int(child), signal.SIGKILL)
    with pytest.raises(ObservationFailed, match=r"b\.yaml: whoever read it was killed"):
        reader.parse("kind: Pod", "b.yaml")
    assert reader.parse("kind: Pod", "c.yaml") == [{"kind": "Pod"}]


def test_what_the_child_loads_is_nobodys_late_import(monkeypatch: pytest.MonkeyPatch) -> None:
    late: list[str] = []
    for name in ("yaml", "jettison.manifests.document_files"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with LateImports(late.append, is_strict=True), ManifestReader() as reader:
        assert reader.parse("kind: Pod", "a.yaml") == [{"kind": "Pod"}]
    assert "yaml" not in sys.modules
    assert late == []


def test_without_a_process_it_may_be_tried_again(monkeypatch: pytest.MonkeyPatch, reader: ManifestReader) -> None:
    def refuse() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    with monkeypatch.context() as patched:
        patched.setattr(manifest_reader, "fork_quietly", refuse)
        with pytest.raises(ObservationFailed, match="no process to read it"):
            reader.parse("kind: Pod", "a.yaml")
    assert reader.parse("kind: Pod", "a.yaml") == [{"kind": "Pod"}]
