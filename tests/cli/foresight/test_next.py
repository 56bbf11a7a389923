"""`jettison next`: on a real node, with and without its agent, and on files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jettison.agent.agent import AgentStep
from jettison.agent.journal.journal import Journal
from jettison.agent.journal.recorder import JournalRecorder
from jettison.clock import Stamp
from jettison.engine.node.decide import decide
from jettison.engine.node.pressure import History
from tests.agent.scripted_runtime import HandClock
from tests.builders import GI, MI, SECOND_NS, node, policy, snapshot
from tests.cli.guarded import Guarded
from tests.cli.inspect.test_top import Terminal
from tests.cli.running import EXAMPLES, IDLE, KUBELET, MEMORY, answer, run

GUARD = policy({"memory.available": "100Mi"})


def earlier(tmp_path: Path, minutes: int = 8, per_minute: int = 100 * MI) -> list[str]:
    """Summaries of the minutes before the example, when more memory was available."""
    options = []
    for ago in range(minutes, 0, -1):
        document = json.loads((EXAMPLES / "memory/idle-summary.json").read_text())
        for part in _dated(document["node"]):
            part["time"] = f"2026-09-01T11:{39 - ago:02d}:00Z"
        memory = document["node"]["memory"]
        memory["availableBytes"] += ago * per_minute
        memory["workingSetBytes"] -= ago * per_minute
        path = tmp_path / f"{ago}.json"
        path.write_text(json.dumps(document))
        options += ["--earlier", str(path)]
    return options


def _dated(document: Any) -> list[Any]:
    if isinstance(document, list):
        return [each for part in document for each in _dated(part)]
    if not isinstance(document, dict):
        return []
    own = [document] if "time" in document else []
    return own + [each for part in document.values() for each in _dated(part)]


def test_earlier_summaries_give_a_trend(tmp_path: Path) -> None:
    found = answer("next", *IDLE, "--config", KUBELET, *earlier(tmp_path))

    memory = next(each for each in found["signals"] if each["signal"] == "memory.available")
    assert found["kind"] == "Outlook"
    assert memory["trend"]["perSecond"] == pytest.approx(-100 * MI / 60, rel=0.2)
    hard = next(each for each in memory["thresholds"] if each["isHard"])
    left = hard["secondsLeft"]
    assert left["soonest"] <= left["likely"] <= left["latest"]
    assert left["likely"] == pytest.approx(hard["headroom"] / -memory["trend"]["perSecond"])
    assert [each["name"] for each in memory["next"]][:1] == ["node-exporter-4wq8z"]
    text = run("next", *IDLE, "--config", KUBELET, *earlier(tmp_path)).stdout
    assert "Mi/s (" in text
    assert "if memory.available or allocatableMemory.available is short, " in text


def test_one_summary_is_too_little_for_a_trend() -> None:
    done = run("next", *MEMORY, "--config", KUBELET)
    assert "too little data for a trend: 6 looks over 20s are needed" in done.stdout
    assert "memory.available             hard           72.0Mi      100Mi   -28.0Mi  -      crossed" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--earlier", "x"), "--earlier goes with --summary"),
        ((*MEMORY, "--observe", "1m"), "--observe goes with --node"),
        ((*MEMORY, "--watch"), "--watch has nothing to watch in files"),
        ((*MEMORY, "--window", "-1s"), "`-1s` is not longer than 0"),
        ((*MEMORY, "--earlier", str(EXAMPLES / "disk/summary.json")), "is about node `worker-7`, the summary about"),
    ],
)
def test_what_cannot_be_asked_is_one_line(arguments: tuple[str, ...], said: str) -> None:
    done = run("next", *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert any(said in line and line.startswith("error: ") for line in done.stderr.splitlines())


def test_a_node_of_this_machine(guarded: Guarded) -> None:
    found = guarded.answer("next")

    memory = next(each for each in found["signals"] if each["signal"] == "memory.available")
    assert (found["node"], memory["capacity"]) == (guarded.name, 128 * MI)
    assert memory["thresholds"][0]["amount"] == 32 * MI
    assert {each["namespace"] for each in memory["next"]} <= {"default", "shop"}
    # The agent has looked more than once since it began.
    assert len(guarded.ask("/readings")["times"]) >= 2


def test_without_the_agent_its_journal_tells(unguarded: Guarded) -> None:
    done = unguarded.here("next")
    assert done.exit_code == 0
    assert f"note: no agent runs for node `{unguarded.name}`: this is the last step on record\n" in done.stderr
    assert done.stdout.startswith(f"node {unguarded.name} at ")


def test_readings_that_are_later_than_the_last_step_on_record_are_no_trend_of_it(tmp_path: Path) -> None:
    """Memory was steady until the step, and fell for a minute after it: what is left of it is not on record."""
    directory = tmp_path / "node" / "n1"
    journal, clock = Journal.open(directory / "journal"), HandClock()
    recorder = JournalRecorder(journal, directory / "history.json", GUARD, clock, "n1", lambda _: None)
    for place in range(14):
        available = 2 * GI - max(0, place - 7) * 100 * MI
        seen = snapshot(0, node(memory=available, capacity=4 * GI)).shifted(clock.steady_ns() + place * 10 * SECOND_NS)
        recorder.prepare(seen, is_urgent=False)
        if place == 7:
            at = Stamp(*(each + 70 * SECOND_NS for each in Stamp.of(clock)))
            recorder.step(AgentStep(History(), seen, decide(GUARD, History(), seen), None, at, has_effect=True))
    recorder.close()
    journal.close()

    found = answer("next", "--state-dir", str(tmp_path))

    memory = next(each for each in found["signals"] if each["signal"] == "memory.available")
    assert (memory["available"], memory["trend"]["perSecond"], memory["trend"]["seconds"]) == (2 * GI, 0, 70)


def test_on_a_terminal_it_is_watched_until_q(guarded: Guarded) -> None:
    terminal = Terminal(guarded, "--watch", "--interval", "0.2", command="next")
    try:
        terminal.until("HEADROOM", count=2)
        terminal.type("q")
        assert terminal.end() == 0
        assert terminal.is_as_before
    finally:
        terminal.close()
