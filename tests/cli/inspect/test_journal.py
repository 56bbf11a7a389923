"""`jettison journal` against a real node, with its agent and without."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jettison.agent.agent import AgentStep
from jettison.agent.journal.files import MAGIC, segment_path, segments
from jettison.agent.journal.journal import Journal
from jettison.agent.journal.recorder import JournalRecorder
from jettison.clock import Stamp
from jettison.engine.node.decide import decide
from jettison.engine.node.pressure import History
from jettison.manifests.times import exact_time_text
from tests.agent.scripted_runtime import HandClock
from tests.cli.foresight.test_explain import POLICY, STARVED
from tests.cli.guarded import Guarded
from tests.cli.running import run

LINE = re.compile(r"(20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d\d\dZ)  (\w+) *(?:  (.*))?")


def lines(text: str) -> list[tuple[str, str, str]]:
    """Time, event and the rest of each line."""
    matches = [LINE.fullmatch(line) for line in text.splitlines()]
    assert all(matches), text
    return [(match[1], match[2], match[3] or "") for match in matches if match is not None]


def test_what_happened_is_told_in_order(guarded: Guarded) -> None:
    done = guarded.run("journal")

    found = lines(done.stdout)
    events = [event for _, event, _ in found]
    assert (done.returncode, done.stderr) == (0, "")
    assert [time for time, _, _ in found] == sorted(time for time, _, _ in found)
    assert events[0] == "agent_started"
    wanted = ["threshold_crossed", "condition_changed", "evict", "eviction_started", "pod_evicted", "pod_cleaned_up"]
    assert sorted(wanted, key=events.index) == wanted


def test_without_the_agent_it_ends_with_its_end(unguarded: Guarded) -> None:
    done = unguarded.run("journal")

    assert lines(done.stdout)[-1][1:] == ("agent_stopped", f"node={unguarded.name}")
    assert (done.returncode, done.stderr) == (0, "")


def test_of_one_pod_only_what_concerned_it(guarded: Guarded) -> None:
    found = lines(guarded.here("journal", "leak").stdout)

    assert {rest.split()[0] for _, _, rest in found} == {"shop/leak"}
    assert [event for _, event, _ in found if event != "container_finished"][:3] == [
        "pod_admitted",
        "evict",
        "eviction_started",
    ]
    evict = next(rest for _, event, rest in found if event == "evict")
    assert re.match(r"shop/leak threshold=memory\.available<32Mi available=\d+\.?\d*Mi capacity=128Mi", evict)


def test_the_newest_few(guarded: Guarded) -> None:
    everything = lines(guarded.here("journal", "leak").stdout)
    assert lines(guarded.here("journal", "leak", "-n", "2").stdout) == everything[-2:]


def test_a_part_of_the_time(unguarded: Guarded) -> None:
    """Of a time itself `since` takes what happened, and `until` does not."""
    records = [json.loads(line) for line in unguarded.here("journal", "-o", "json").stdout.splitlines()]
    middle = records[len(records) // 2]["time"]
    instant = exact_time_text(middle)

    after = unguarded.here("journal", "-o", "json", "--since", instant).stdout.splitlines()
    before = unguarded.here("journal", "-o", "json", "--until", instant).stdout.splitlines()

    assert [json.loads(line) for line in before + after] == records
    assert json.loads(after[0])["time"] == middle


def test_some_time_ago(guarded: Guarded) -> None:
    assert lines(guarded.here("journal", "--since", "1h").stdout) == lines(guarded.here("journal").stdout)
    done = guarded.here("journal", "--until", "1h")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == f"note: nothing is on record for node `{guarded.name}` at that time\n"


def test_json_has_whole_records(guarded: Guarded) -> None:
    records = [json.loads(line) for line in guarded.run("journal", "-o", "json").stdout.splitlines()]

    assert {record["version"] for record in records} == {1}
    step = next(record for record in records if record["kind"] == "step" and record["evicts"])
    assert step["looks"][-1]["snapshot"]["pods"]
    started = next(record for record in records if record.get("event") == "eviction_started")
    assert started["values"]["pod"] == "shop/leak"


def test_an_unknown_pod(guarded: Guarded) -> None:
    done = guarded.here("journal", "nobody")

    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == f"error: no pod `nobody` is on record for node `{guarded.name}`\n"


@pytest.mark.parametrize("when", ["yesterday", "10", "2030-01-01", "-"])
def test_what_is_no_time_is_refused(guarded: Guarded, when: str) -> None:
    done = guarded.here("journal", f"--since={when}")

    assert done.exit_code == 2
    assert done.stderr.startswith(f"error: invalid value for `--since`: `{when}`: expected a time such as `2030-")


def test_a_journal_that_does_not_exist_yet_is_empty(tmp_path: Path) -> None:
    (tmp_path / "node" / "n1").mkdir(parents=True)
    done = run("journal", "--state-dir", str(tmp_path))

    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "note: nothing is on record for node `n1`\n")


def test_hostile_records_cannot_move_the_cursor(tmp_path: Path) -> None:
    """Nor does one of an unknown shape stop the others from being told."""
    journal = Journal.open(tmp_path / "node" / "n1" / "journal")
    base = {"version": 1, "time": 10**18, "node": "n1", "pods": []}
    journal.append(
        {**base, "kind": "fact", "event": "action_failed", "values": {"what": "\x1b[2J\nforged", "why": "é"}}
    )
    journal.append({**base, "kind": "step", "evicts": [], "looks": "none"})
    journal.append({**base, "kind": "fact", "event": "agent_stopped", "values": {"node": "n1"}})
    journal.close()

    done = run("journal", "--state-dir", str(tmp_path))

    assert done.exit_code == 0
    shown = done.stdout.splitlines()
    assert len(shown) == 3
    assert "\x1b" not in done.stdout
    assert r"\x1b[2J\nforged" in shown[0]
    assert "unreadable=" in shown[1]


def test_a_step_that_waits_names_no_pod(tmp_path: Path) -> None:
    """While one pod clears away the next is chosen at every look, but is not evicted."""
    journal, clock = Journal.open(tmp_path / "node" / "n1" / "journal"), HandClock()
    clock.time_ns = 1893456000 * 10**9
    recorder = JournalRecorder(journal, tmp_path / "history", POLICY, clock, "n1", lambda _: None)
    outcome = decide(POLICY, History(), STARVED)
    recorder.step(AgentStep(History(), STARVED, outcome, None, Stamp.of(clock), has_effect=False))
    clock.pass_seconds(2)
    recorder.step(AgentStep(History(), STARVED, outcome, None, Stamp.of(clock), has_effect=True))
    journal.close()

    decisions = [
        (event, rest.split()[0])
        for _, event, rest in lines(run("journal", "--state-dir", str(tmp_path)).stdout)
        if event in ("evict", "wait")
    ]
    assert decisions == [("wait", "threshold=memory.available<100Mi"), ("evict", "default/leak")]
    about_it = lines(run("journal", "leak", "--state-dir", str(tmp_path)).stdout)
    assert [event for _, event, _ in about_it] == ["evict"]


def test_a_torn_journal_is_told_as_far_as_it_goes(guarded: Guarded, tmp_path: Path) -> None:
    directory = tmp_path / "node" / "n1" / "journal"
    directory.mkdir(parents=True)
    data = segment_path(guarded.node_state / "journal", 1).read_bytes()
    segment_path(directory, 1).write_bytes(data[: len(data) // 2])

    shown = run("journal", "--state-dir", str(tmp_path)).stdout

    assert shown
    assert guarded.here("journal").stdout.startswith(shown)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7])
def test_the_newest_lines_are_as_many_as_were_asked_for(unguarded: Guarded, count: int) -> None:
    """A step has several lines, so it is lines that are counted and not records."""
    everything = unguarded.here("journal").stdout.splitlines()

    assert unguarded.here("journal", "-n", str(count)).stdout.splitlines() == everything[-count:]


def test_a_value_cannot_pass_for_another_value(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "node" / "n1" / "journal")
    base = {"version": 1, "time": 10**18, "node": "n1", "pods": []}
    why = 'a "quoted" thing pod=other\nsecond line'
    journal.append({**base, "kind": "fact", "event": "action_failed", "values": {"what": 'x"y', "why": why}})
    journal.close()

    (line,) = run("journal", "--state-dir", str(tmp_path)).stdout.splitlines()

    assert line.endswith(r'what="x\"y" why="a \"quoted\" thing pod=other\nsecond line"')


def test_what_is_recorded_later_is_followed(tmp_path: Path) -> None:
    """Over a new segment, with the filters, until Ctrl-C, which ends it without a word."""
    directory = tmp_path / "node" / "n1" / "journal"
    journal = Journal.open(directory)

    def say(event: str, pod: str) -> None:
        pods = [["default", pod, f"uid-{pod}"]]
        record = {"version": 1, "time": 10**18, "node": "n1", "pods": pods, "kind": "fact", "event": event}
        journal.append({**record, "values": {"pod": f"default/{pod}", "uid": f"uid-{pod}"}})

    for number in range(3):
        say(f"old_{number}", "web")
    line = [sys.executable, "-m", "jettison", "journal", "web", "-f", "-n", "2", "--state-dir", str(tmp_path)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        assert [following.stdout.readline().split()[1] for _ in range(2)] == ["old_1", "old_2"]
        say("new_1", "other")
        say("new_2", "web")
        journal.close()
        number = max(number for number, _ in segments(directory))
        segment_path(directory, number + 1).write_bytes(MAGIC)
        journal = Journal.open(directory)
        say("new_3", "web")
        assert [following.stdout.readline().split()[1] for _ in range(2)] == ["new_2", "new_3"]
        following.send_signal(signal.SIGINT)
        rest, errors = following.communicate(timeout=30)
    journal.close()
    assert (rest, errors, following.returncode) == ("", "", 130)


def test_what_is_followed_has_no_end_of_its_own(guarded: Guarded) -> None:
    done = guarded.here("journal", "-f", "--until", "1h")
    assert (done.exit_code, done.stderr) == (
        2,
        "error: --until ends what --follow would go on with: give one of them\n",
    )
