"""A live node recorded and replayed: the replay's journal is the node's, to the byte."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from jettison.cli.program import program
from jettison.simulator.recordings import RecordingReader
from jettison.simulator.replay import replay
from jettison.simulator.settings_changes import with_settings
from tests.live.node import GROW, HOLD, MI, LiveNode, pod, python

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="cgroups with limits need root"),
    pytest.mark.timeout(300),
]

SECRET = "hunter2-in-the-environment"


def has_begun(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 100


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveNode, Path]]:
    """A node of 256Mi while two pods are evicted from it: one for a soft threshold, one for a hard one."""
    directory = tmp_path_factory.mktemp("node")
    node = LiveNode(
        directory,
        ["--node-memory", "256Mi"],
        config={
            "evictionHard": {"memory.available": "60Mi"},
            "evictionSoft": {"memory.available": "100Mi"},
            "evictionSoftGracePeriod": {"memory.available": "1s"},
            "evictionMaxPodGracePeriod": 1,
        },
    )
    environment = {"container": {"env": [{"name": "PASSWORD", "value": SECRET}]}}
    node.write(pod("calm", python(HOLD.format(mebibytes=20)), memory="64Mi", **environment))
    node.start()
    node.wait(lambda: node.pids("calm"), "the first pod")
    path = directory / "recording"
    words = [str(Path(sys.executable).with_name("jettison")), "record", str(path)]
    words += ["--state-dir", str(node.state), "--node-name", node.name]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as recorder:
        node.wait(lambda: recorder.poll() is not None or has_begun(path), "the recording to begin")
        assert recorder.poll() is None, recorder.communicate()
        node.write(pod("slow", python(HOLD.format(mebibytes=130))))
        node.wait(lambda: "slow" in node.evicted(), "the soft threshold")
        node.write(pod("quick", python(GROW.format(pause=0.005)), memory="1Mi"))
        node.wait(lambda: "quick" in node.verdicts(), "the hard threshold")
        recorder.send_signal(signal.SIGINT)
        assert recorder.wait(60) == 0, recorder.communicate()
    yield node, path
    node.stop()


def test_the_replay_is_the_journal_to_the_byte(recorded: tuple[LiveNode, Path]) -> None:
    node, path = recorded
    found = replay(path, keeps_journal=True)
    journal = [record.data for record in node.journal()]
    first = journal.index(found.journal[0])

    assert found.journal == journal[first : first + len(found.journal)]
    assert not found.first_difference
    assert found.same >= 2
    evicted = [uid for step in found.decided for uid in step.document["evicts"]]
    assert len(evicted) >= 2
    assert found.estimated_from is None


def test_a_recording_holds_what_the_engine_reads_and_no_more(recorded: tuple[LiveNode, Path]) -> None:
    lines = b"\n".join(RecordingReader(recorded[1]).lines())

    assert b"calm" in lines
    assert SECRET.encode() not in lines
    assert b"time.sleep" not in lines


def test_without_the_soft_threshold_the_same_pod_goes_later_for_the_hard_one(recorded: tuple[LiveNode, Path]) -> None:
    """It has the largest excess still, but keeps its memory until the other pod comes."""
    _, path = recorded
    settings = [("evictionSoft.memory.available", ""), ("evictionSoftGracePeriod.memory.available", "")]
    changed = replay(path, lambda policy: with_settings(policy, settings))
    was, now = (
        next((step.seconds, step.document) for step in found.decided if step.document["evicts"])
        for found in (replay(path), changed)
    )

    assert changed.estimated_from is not None
    assert now[0] > was[0]
    assert now[1]["evicts"] == was[1]["evicts"]
    assert [each["looks"][-1]["decision"]["starved"]["isHard"] for each in (was[1], now[1])] == [False, True]


def test_the_commands_tell_it(recorded: tuple[LiveNode, Path], tmp_path: Path) -> None:
    node, path = recorded
    where = ["--state-dir", str(node.state), "--node-name", node.name]
    journal = CliRunner().invoke(program, ["journal", "-o", "json", *where]).stdout.splitlines()
    records = CliRunner().invoke(program, ["replay", str(path), "-o", "journal"]).stdout.splitlines()
    assert {*records} <= {*journal}
    assert any('"kind":"step"' in each for each in records)
    done = CliRunner().invoke(program, ["replay", str(path)])
    assert done.exit_code == 0, done.output
    assert "evict  " in done.stdout
    assert "all as recorded, to the byte" in done.stderr

    expected = tmp_path / "expected.json"
    expected.write_text(CliRunner().invoke(program, ["replay", str(path), "-o", "json"]).stdout)
    assert CliRunner().invoke(program, ["replay", str(path), "--expect", str(expected)]).exit_code == 0
    other = [
        "replay",
        str(path),
        "--set",
        "evictionHard.memory.available=20Mi",
        "--set",
        "evictionSoft.memory.available=21Mi",
    ]
    told = CliRunner().invoke(program, [*other, "--expect", str(expected)])
    assert told.exit_code == 3
    assert "line 1 of the story differs" in told.stderr
    shown = CliRunner().invoke(program, [*other, "--diff"])
    assert shown.exit_code == 0
    assert "RECORDED" in shown.stdout


def test_a_second_recording_is_refused_and_a_stopped_one_makes_room(recorded: tuple[LiveNode, Path]) -> None:
    node, path = recorded
    again = CliRunner().invoke(
        program, ["record", str(path), "--state-dir", str(node.state), "--node-name", node.name, "--for", "1s"]
    )
    assert again.exit_code == 1
    assert "exists already" in again.stderr
    assert path.stat().st_size > MI // 1024

    third = path.with_name("third")
    done = CliRunner().invoke(
        program,
        ["record", str(third), "--state-dir", str(node.state), "--node-name", node.name, "--for", "1s", "--anonymise"],
    )
    assert done.exit_code == 0, done.output
    lines = [json.loads(line) for line in RecordingReader(third).lines()]
    assert lines[0]["node"] == "node-1"
    assert all(b"calm" not in line for line in RecordingReader(third).lines())
