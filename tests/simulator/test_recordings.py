"""Recordings as files: what is written is read again, and what is damaged says where."""

from __future__ import annotations

import asyncio
import json
import os
import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from jettison.agent.agent import TapedLook
from jettison.agent.journal.tape import MAGIC, Lines, joined_lines
from jettison.cli.program import program
from jettison.clock import Stamp
from jettison.engine.node.pressure import History
from jettison.errors import ManifestError
from jettison.runtimes.protocol import Alarm, EndingPod
from jettison.simulator.anonymity import Anonymiser
from jettison.simulator.recordings import Beginning, RecordingReader, RecordingWriter
from jettison.simulator.replay import replay
from jettison.simulator.settings_changes import with_settings
from tests.builders import GI, MI, memory_used, node, pod, policy, snapshot
from tests.runtimes.test_contract import eviction

POLICY = policy({"memory.available": "100Mi"})
PODS = [pod("a", memory="64Mi"), pod("b")]


def look(seconds: int, available: int, *told: str, used: int = 300 * MI) -> TapedLook:
    """A look at a node of 1 GiB on which `b` uses more than it asked for."""
    seen = snapshot(
        seconds,
        node(memory=available, capacity=GI, time_s=seconds),
        PODS,
        {"a": memory_used(MI), "b": memory_used(used)},
    )
    return TapedLook(Stamp(seconds * 10**9, seconds * 10**9, seconds * 10**9), Alarm("poll", 1), seen, (), told)


def write(path: Path, *looks: TapedLook) -> Path:
    lines = Lines()
    with RecordingWriter(path) as writer:
        writer.add([lines.begin("n1", "agent", Stamp(0, 0, 0), POLICY, History(), {}, acts=True)])
        for each in looks:
            writer.add(lines.look(each))
    return path


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    ending = EndingPod(eviction(PODS[1], 3), 5, 4, None)
    first = look(10, 200 * MI)
    written = [first, TapedLook(first.at, None, first.snapshot, (ending,), ("b",))]
    path = write(tmp_path / "r", *written)

    begin, one, two = RecordingReader(path).entries()

    assert isinstance(begin, Beginning)
    assert (begin.node, begin.policy, begin.acts) == ("n1", POLICY, True)
    assert isinstance(one, TapedLook)
    assert joined_lines(Lines().look(one)) == joined_lines(Lines().look(written[0]))
    assert isinstance(two, TapedLook)
    assert (two.told, two.endings[0].began_ns, two.endings[0].eviction.pod) == (("b",), 4, PODS[1])
    assert (path.stat().st_mode & 0o777) == 0o600


def test_after_another_decision_a_pod_that_stays_keeps_what_it_had(tmp_path: Path) -> None:
    """The recorded agent evicted `b` at once. With a lower threshold it stays, so the memory stays gone."""
    path = write(tmp_path / "r", look(10, 90 * MI, "b"), look(20, 390 * MI, used=0), look(30, 300 * MI, used=0))

    found = replay(path, lambda recorded: with_settings(recorded, [("evictionHard.memory.available", "50Mi")]))

    assert (found.estimated_from, found.estimated_because) == (10, "default/b was evicted here and is not")
    (step,) = [each for each in found.decided if each.document["evicts"]]
    assert (step.seconds, step.document["evicts"]) == (30, ["b"])
    assert step.document["looks"][0]["snapshot"]["summary"]["node"]["memory"]["availableBytes"] == 0


def test_after_another_decision_a_pod_that_goes_gives_back_what_it_used(tmp_path: Path) -> None:
    path = write(tmp_path / "r", look(10, 190 * MI), look(20, 150 * MI), look(30, 110 * MI))

    found = replay(path, lambda recorded: with_settings(recorded, [("evictionHard.memory.available", "200Mi")]))

    (step,) = [each for each in found.decided if each.document["evicts"]]
    assert (step.seconds, step.document["evicts"]) == (10, ["b"])
    assert (found.estimated_from, found.estimated_because) == (10, "default/b is evicted here and was not")


def test_after_another_decision_both_pods_are_named(tmp_path: Path) -> None:
    path = write(tmp_path / "r", look(10, 90 * MI, "a"))
    assert replay(path, lambda policy: policy).estimated_because == "default/b is evicted here instead of default/a"


def frame(payload: bytes) -> bytes:
    return struct.pack("<II", len(payload), zlib.crc32(payload)) + payload


def encode(lines: list[dict[str, Any]]) -> bytes:
    """A whole file behind its head."""
    packer = zlib.compressobj()
    return frame(packer.compress(joined_lines(lines)) + packer.flush(zlib.Z_SYNC_FLUSH))


def changed(line: dict[str, Any], **fields: Any) -> bytes:
    return encode([{**line, **fields}])


BEGIN = Lines().begin("n1", "agent", Stamp(0, 0, 0), POLICY, History(), {}, acts=True)
DAMAGED: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda _: b"", "this is no recording"),
    "a gigabyte of nothing": (lambda _: b"\0" * 4096, "this is no recording"),
    "another version of the file": (
        lambda data: b"jettrec9" + data[8:],
        "version is `9`, this program reads version 1",
    ),
    "another version of the lines": (lambda _: MAGIC + changed(BEGIN, version=7), "version is `7`"),
    "nothing but its head": (lambda _: MAGIC, "holds nothing"),
    "a bit that flipped": (
        lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:],
        "damaged at byte 8, after line 0",
    ),
    "a length of nothing": (lambda data: data + b"\0" * 64, "a frame has 1 to"),
    "a kilobyte that is a gigabyte": (
        lambda _: MAGIC + frame(zlib.compress(b" " * (65 * 2**20), 9)),
        "holds more than 67108864 bytes",
    ),
    "not packed": (lambda _: MAGIC + frame(b"hello"), "cannot be unpacked"),
    "no JSON": (lambda _: MAGIC + frame(zlib.compress(b"hello")), "line 1"),
    "an unknown line": (
        lambda _: MAGIC + encode([BEGIN, {"k": "moon"}]),
        "kind is `moon`, expected one of begin, pod, look",
    ),
    "an unknown key": (
        lambda _: MAGIC + changed(BEGIN, acst=True),
        "line 1: unknown key `acst`, expected one of version",
    ),
    "a key where there is none": (
        lambda _: MAGIC + encode([BEGIN, {"k": "interrupted", "why": ""}]),
        "line 2: unknown key `why`, expected none",
    ),
    "no beginning": (lambda _: MAGIC + encode([{"k": "failed", "why": ""}]), "the first line is not its beginning"),
    "two beginnings": (lambda _: MAGIC + encode([BEGIN, BEGIN]), "it begins twice"),
    "a wrong unit": (
        lambda _: (
            MAGIC + changed(BEGIN, policy={"kubeletConfiguration": {"evictionHard": {"memory.available": "1Zi"}}})
        ),
        "line 1",
    ),
    "a pod of nowhere": (
        lambda _: MAGIC + encode([BEGIN, {**Lines().look(look(1, 1))[-1], "pods": [77]}]),
        "pod 77 was not described before",
    ),
    "an array of arrays": (lambda _: MAGIC + frame(zlib.compress(b"[" * 5000)), "nested more than 100 levels"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_recording_says_where(tmp_path: Path, name: str) -> None:
    damage, said = DAMAGED[name]
    path = write(tmp_path / "r", look(10, 200 * MI))
    path.write_bytes(damage(path.read_bytes()))

    with pytest.raises(ManifestError, match=f"{tmp_path}/r`.*{said.replace('(', '.')}"):
        replay(path)
    done = CliRunner().invoke(program, ["replay", str(path)])
    assert done.exit_code == 2
    assert done.stderr.startswith("error: ")


def test_what_is_torn_is_left_out_and_told(tmp_path: Path) -> None:
    path = write(tmp_path / "r", look(10, 200 * MI), look(20, 200 * MI))
    whole = path.read_bytes()
    counts = set()
    for length in range(len(MAGIC), len(whole)):
        path.write_bytes(whole[:length])
        with suppress(ManifestError):  # before the first frame is whole it holds nothing
            found = replay(path)
            counts.add((found.looks, bool(found.torn)))
    assert {looks for looks, _ in counts} == {0, 1}
    assert (1, True) in counts


def test_a_pipe_without_a_writer_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ManifestError, match="no recording"):
        replay(tmp_path / "pipe")


def test_without_names_the_same_is_decided(tmp_path: Path) -> None:
    path = write(tmp_path / "r", look(10, 90 * MI, "b"))
    hidden, other = Anonymiser(), tmp_path / "hidden"
    with RecordingWriter(other) as writer:
        lines = (hidden.line(json.loads(line)) for line in RecordingReader(path).lines())
        writer.add([line for line in lines if line is not None])

    found = replay(other)

    (step,) = found.decided
    assert step.document["node"] == "node-1"
    assert step.document["pods"] == [("namespace-1", "pod-1", "uid-1"), ("namespace-1", "pod-2", "uid-2")]
    assert step.document["evicts"] == ["uid-2"]
    assert found.estimated_from is None


SETTINGS = {
    "evictionHard.memory.available": "expected KEY=VALUE",
    "evictionHrad.memory.available=1Gi": "did you mean `evictionHard`",
    "evictionHard.memory.availble=1Gi": "did you mean `memory.available`",
    "evictionHard.memory.available=1GB": "--set evictionHard.memory.available=1GB: write 1G or 1Gi",
    "evictionHard=1Gi": "takes an entry",
    "maxPods.x=1": "takes no entry",
    "maxPods=many": "expected a whole number",
    "evictionHard.memory.available=1Zi": "1Zi",
    "evictionHard.moon=1Gi": "moon",
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_wrong_setting_is_refused(tmp_path: Path, setting: str) -> None:
    path = write(tmp_path / "r", look(10, 200 * MI))
    done = CliRunner().invoke(program, ["replay", str(path), "--set", setting])
    assert done.exit_code == 2
    assert SETTINGS[setting] in done.stderr


class Kubelet(BaseHTTPRequestHandler):
    """An API server with one node behind its proxy: memory falls with every look."""

    looks = 0

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        status = 200
        if path == "/api/v1/nodes/n1/proxy/configz":
            document: Any = {"kubeletconfig": {"evictionHard": {"memory.available": "100Mi"}, "port": 10250}}
        elif path == "/api/v1/nodes/n1/proxy/stats/summary":
            Kubelet.looks += 1
            document = self.summary((400 - 150 * Kubelet.looks) * MI)
        elif path == "/api/v1/pods":
            secret = {"env": [{"name": "PASSWORD", "value": "hunter2"}], "command": ["secret"]}
            spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "private", **secret}]}
            item = {
                "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
                "spec": spec,
                "status": {"phase": "Running"},
            }
            document = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [item]}
        else:
            status, document = 404, {"kind": "Status", "code": 404, "message": "no such path"}
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def summary(self, available: int) -> dict[str, Any]:
        time = f"2026-01-01T00:00:{Kubelet.looks:02d}Z"
        memory = {"time": time, "availableBytes": max(available, 0), "workingSetBytes": GI - available}
        used = {"podRef": {"name": "p", "namespace": "ns", "uid": "u"}, "memory": {"workingSetBytes": GI // 2}}
        return {"node": {"nodeName": "n1", "memory": memory}, "pods": [{**used, "containers": []}]}

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def kubelet() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Kubelet)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_kubelet_is_recorded_through_its_cluster(tmp_path: Path, kubelet: str) -> None:
    """Its summary, its pods and its own settings; nothing else of a pod's document is in the file."""
    Kubelet.looks = 0
    path = tmp_path / "r"
    arguments = ["record", str(path), "--server", kubelet, "--node", "n1", "--interval", "1s", "--for", "2500ms"]
    done = CliRunner().invoke(program, arguments)
    assert done.exit_code == 0, done.output

    found = replay(path)

    assert found.looks >= 3
    assert [step.document["evicts"] for step in found.decided if step.document["evicts"]] == [["u"]]
    lines = b"".join(RecordingReader(path).lines())
    assert not any(secret in lines for secret in (b"hunter2", b"secret", b"private"))


def test_a_node_that_is_not_there_is_told(tmp_path: Path, kubelet: str) -> None:
    arguments = ["record", str(tmp_path / "r"), "--server", kubelet, "--node", "n2", "--for", "1s"]
    done = CliRunner().invoke(program, arguments)
    assert done.exit_code == 2
    assert "does not tell its configuration" in done.stderr
    assert not (tmp_path / "r").exists()


def test_a_single_look_is_told_as_one(tmp_path: Path) -> None:
    """And where no step was decided, none is said to be as recorded."""
    done = CliRunner().invoke(program, ["replay", str(write(tmp_path / "r", look(10, 500 * MI)))])
    assert done.stderr.splitlines() == ["note: nothing was decided", "note: node n1: 1 look in 10 s"]


@pytest.mark.parametrize("story", [{}, {"story": 5}, {"story": {"a": 1}}])
def test_what_is_no_answer_of_a_replay_is_not_compared(tmp_path: Path, story: dict[str, Any]) -> None:
    expected = tmp_path / "expected.json"
    expected.write_text(json.dumps({"version": 1, "kind": "Replay", **story}))
    recording = write(tmp_path / "r", look(10, 500 * MI))
    done = CliRunner().invoke(program, ["replay", str(recording), "--expect", str(expected)])
    assert done.exit_code == 2
    assert done.stderr.endswith(f"error: {expected}: expected what `-o json` of this command printed\n")


def test_asyncio_is_not_needed_for_a_replay(tmp_path: Path) -> None:
    """No loop runs, and none is made: time is the recording's."""
    path = write(tmp_path / "r", look(10, 90 * MI, "b"))
    replay(path)
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()
