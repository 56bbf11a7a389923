"""`jettison why` against a real node, with its agent and without, and for pods of which nothing else is left."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from jettison import events
from jettison.agent.journal.journal import Journal
from jettison.agent.journal.recorder import JournalRecorder
from jettison.agent.sinks.journal import JournalSink
from jettison.engine.node.decide import Evict, decide
from jettison.engine.node.pressure import History
from tests.agent.scripted_runtime import HandClock
from tests.builders import MI, memory_used, node, pod, policy, snapshot
from tests.cli.guarded import Guarded, as_nobody
from tests.cli.running import run

POLICY = policy({"memory.available": "100Mi"})
LEAK = pod("leak")
STARVED = snapshot(
    1893456000,
    node(memory=96 * MI, capacity=512 * MI, time_s=9),
    [LEAK, pod("web", memory="64Mi")],
    {"leak": memory_used(300 * MI), "web": memory_used(60 * MI)},
)


@pytest.mark.parametrize("name", ["leak", "shop/leak"])
def test_the_reason_of_an_eviction_is_told(guarded: Guarded, name: str) -> None:
    done = guarded.run("why", name)

    first, *details = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert first.startswith("shop/leak was evicted at 20")
    labels = [line.split()[0] for line in details if not line.startswith("   ")]
    assert labels[:2] == ["uid", "because"]
    assert labels[-7:] == ["order", "grace", "message", "signal", "ended", "cleared", "later"]
    assert "it does not come back by itself: a changed manifest brings it back" in details[-1]
    assert "below the hard threshold of 32Mi" in done.stdout
    assert "→ 1.  shop/leak" in done.stdout


def test_without_the_agent_it_is_told_just_so(unguarded: Guarded) -> None:
    done = unguarded.run("why", "leak")

    assert done.stdout.startswith("shop/leak was evicted at 20")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_uid_will_do(guarded: Guarded) -> None:
    uid = guarded.answer("why", "leak")["pod"]["uid"]
    assert guarded.answer("why", uid)["pod"]["name"] == "leak"


def test_of_two_pods_with_one_name_the_other_is_mentioned(guarded: Guarded) -> None:
    done = guarded.here("why", "web")

    names = {"default/web", "shop/web"}
    told = done.stdout.split()[0]
    assert told in names
    assert done.stderr == f"note: also called so: {(names - {told}).pop()}\n"
    assert guarded.here("why", "shop/web").stderr == ""


@pytest.mark.parametrize(
    ("name", "outcome", "said"),
    [
        ("leak", "evicted", "shop/leak was evicted at"),
        ("default/web", "not evicted", "default/web was not evicted"),
        ("guard", "not evicted", "it is critical (priority 2000001000)"),
        ("refused", "rejected", "node(s) didn't match Pod's node affinity/selector"),
    ],
)
def test_json_tells_the_same(guarded: Guarded, name: str, outcome: str, said: str) -> None:
    document = guarded.answer("why", name)

    assert (document["version"], document["kind"], document["outcome"]) == (1, "Explanation", outcome)
    assert said in "\n".join(document["text"])
    assert document["text"] == guarded.here("why", name).stdout.splitlines()


def test_json_has_the_decision_with_all_its_keys(guarded: Guarded) -> None:
    decision = guarded.answer("why", "leak")["decision"]

    assert (decision["choseIt"], decision["dryRun"]) == (True, False)
    assert decision["threshold"] == "memory.available<32Mi"
    assert decision["available"] < 32 * MI
    assert [each["name"] for each in decision["ranking"]][:1] == ["leak"]
    assert decision["ranking"][0]["usage"]["value"] > 32 * MI
    events_told = [fact["event"] for fact in guarded.answer("why", "leak")["facts"]]
    assert events_told.index("eviction_started") < events_told.index("pod_evicted")


def test_an_unknown_pod(guarded: Guarded) -> None:
    done = guarded.run("why", "nobody")

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"error: no pod `nobody` is on record for node `{guarded.name}`\n"


def test_a_pod_of_which_nothing_else_is_left(unguarded: Guarded, tmp_path: Path) -> None:
    """Records, logs and agent are gone; the journal is not."""
    there = tmp_path / "node" / "archived"
    shutil.copytree(unguarded.node_state / "journal", there / "journal")

    assert run("why", "leak", "--state-dir", str(tmp_path)).stdout.startswith("shop/leak was evicted at 20")


def test_a_pod_that_came_back_is_explained_by_its_last_eviction(tmp_path: Path) -> None:
    """Admitted again it has another uid. Who asks why does not mean the one that runs."""
    directory = tmp_path / "node" / "n1" / "journal"
    journal, clock = Journal.open(directory), HandClock()
    sink = JournalSink(journal, "n1")
    recorder = JournalRecorder(journal, tmp_path / "history", POLICY, clock, "n1", lambda _: None)
    outcome = decide(POLICY, History(), STARVED)
    recorder.step(History(), STARVED, outcome, None, has_effect=True)
    assert isinstance(outcome.decision, Evict)
    sink.take(events.EvictionStarted(outcome.decision.evictions[0], 10**6), clock.now_ns() + 1)
    sink.take(events.PodAdmitted(replace(LEAK, uid="leak.1")), clock.now_ns() + 2)
    journal.close()

    done = run("why", "leak", "--state-dir", str(tmp_path))

    assert done.stdout.splitlines()[0].startswith("default/leak was evicted at")
    assert "uid       leak\n" in done.stdout
    assert done.stderr == "note: default/leak is back since, as `leak.1`, and not evicted\n"
    assert run("why", "leak.1", "--state-dir", str(tmp_path)).stdout.startswith("default/leak was not evicted")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_a_user_that_may_not_read_the_journal_is_told_so(guarded: Guarded) -> None:
    done = as_nobody("why", "leak", *guarded.where)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"error: cannot read the journal in `{guarded.node_state}/journal`: permission denied\n"
