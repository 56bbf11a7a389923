"""`jettison explain` and `why`: a real node with its agent and without, files, and every change applied again."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jettison import events
from jettison.agent.agent import AgentStep
from jettison.agent.journal.journal import Journal
from jettison.agent.journal.reading import read_journal
from jettison.agent.journal.recorded_steps import step_from
from jettison.agent.journal.recorder import JournalRecorder
from jettison.agent.sinks.journal import JournalSink
from jettison.clock import Stamp
from jettison.engine.foresight.cases import play
from jettison.engine.foresight.counterfactuals import sparing
from jettison.engine.node.decide import Evict, decide
from jettison.engine.node.pressure import History
from tests.agent.scripted_runtime import HandClock
from tests.builders import MI, memory_used, node, pod, policy, snapshot
from tests.cli.guarded import Guarded, as_nobody, shell
from tests.cli.guarded import pod as world_pod
from tests.cli.running import DISK, KUBELET, MEMORY, answer, edited, run

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
    assert labels[-8:] == ["order", "unless", "grace", "message", "signal", "ended", "cleared", "later"]
    assert "it does not come back by itself: `jettison restart` or a changed manifest brings it back" in details[-1]
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
    """Admitted again it has another uid. A user that asks why does not mean the one that runs."""
    directory = tmp_path / "node" / "n1" / "journal"
    journal, clock = Journal.open(directory), HandClock()
    sink = JournalSink(journal, "n1")
    recorder = JournalRecorder(journal, tmp_path / "history", POLICY, clock, "n1", lambda _: None)
    outcome = decide(POLICY, History(), STARVED)
    recorder.step(AgentStep(History(), STARVED, outcome, None, Stamp.of(clock), has_effect=True))
    assert isinstance(outcome.decision, Evict)
    sink.take(events.EvictionStarted(outcome.decision.evictions[0], 10**6), clock.now_ns() + 1)
    sink.take(events.PodAdmitted(replace(LEAK, uid="leak.1")), clock.now_ns() + 2)
    journal.close()

    done = run("why", "leak", "--state-dir", str(tmp_path))

    assert done.stdout.splitlines()[0].startswith("default/leak was evicted at")
    assert "uid       leak\n" in done.stdout
    assert done.stderr == "note: default/leak is back since, as `leak.1`, and not evicted\n"
    assert run("why", "leak.1", "--state-dir", str(tmp_path)).stdout.startswith("default/leak was not evicted")


def test_what_would_have_spared_a_pod_is_replayed_from_the_journal(unguarded: Guarded) -> None:
    """Each change is made to the recorded step, and the engine is asked again."""
    told = unguarded.answer("explain", "leak")["changes"]
    record = next(
        each
        for each in read_journal(unguarded.node_state / "journal", newest_first=True)
        if each.evicts and any(name == "leak" for _, name, uid in each.pods if uid in each.evicts)
    )
    case = step_from(record.data).case
    assert case is not None
    leak = next(pod for pod in case.snapshot.pods if pod.uid == record.evicts[0])
    found = {(each.lever.what.value, each.suggested): each for each in sparing(case, leak)}

    assert told["when"] == "unless"
    assert {each["what"] for each in told["found"]} >= {"request", "usage", "threshold"}
    for each in told["found"]:
        again = play(found[each["what"], each["value"]].lever.apply(each["value"]))
        assert not again.takes(leak.uid)
        assert [pod["uid"] for pod in each["then"]["evicts"]] == [pod.uid for pod in again.pods]


def test_a_spared_pod_is_told_what_would_make_it_go(guarded: Guarded) -> None:
    document = guarded.answer("explain", "default/web")

    assert document["changes"]["when"] == "if"
    assert "  if        " in "\n".join(document["text"])


def test_a_pod_that_no_decision_ranked_is_told_of_now(guarded: Guarded) -> None:
    """The journal knows that it was admitted and nothing else; what would happen now is what its user asks for."""
    late = world_pod("late", shell("main", "sleep 600", "8Mi"))
    guarded.write(late)
    try:
        guarded.wait(lambda: guarded.pids("late"), "the late pod")
        document = guarded.answer("explain", "late")
    finally:
        (guarded.manifests / "default-late.json").unlink()
    guarded.wait(lambda: not guarded.pids("late"), "its end")

    assert document["text"][0] == "default/late would not be evicted now"
    assert document["changes"]["when"] == "if"


def test_the_last_decision_and_one_by_its_time(guarded: Guarded) -> None:
    last = guarded.answer("explain", "last")
    again = guarded.answer("explain", last["decision"]["time"])

    assert (last["pod"]["name"], last["decision"]["choseIt"]) == ("leak", True)
    assert again["text"] == last["text"]
    early = guarded.here("explain", "decision/2001-01-01T00:00:00Z")
    assert early.stderr.startswith("error: no decision at 2001-01-01T00:00:00Z or before is on record")


def test_a_node_is_asked_what_it_would_do_now(guarded: Guarded) -> None:
    document = guarded.answer("explain")

    assert (document["kind"], document["node"]) == ("NodeExplanation", guarded.name)
    assert document["decision"]["action"] == "nothing"
    assert guarded.here("explain", f"node/{guarded.name}").stdout.startswith(f"node {guarded.name} at ")


def test_a_node_without_its_agent_cannot_be_asked(unguarded: Guarded) -> None:
    done = unguarded.here("explain")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == f"error: no agent runs for node `{unguarded.name}`\n"


def _request(document: Any, name: str, resource: str, value: int) -> None:
    pod = next(each for each in document["items"] if each["metadata"]["name"] == name)
    requests = pod["spec"]["containers"][0].setdefault("resources", {}).setdefault("requests", {})
    requests[resource] = str(value)


def _priority(document: Any, name: str, value: int) -> None:
    pod = next(each for each in document["items"] if each["metadata"]["name"] == name)
    pod["spec"]["priority"] = value


def _victim(*arguments: str) -> str | None:
    decision = answer("decide", *arguments)["decision"]
    decision = decision["otherwise"] or decision
    return decision["evictions"][0]["name"] if decision["evictions"] else None


@pytest.mark.parametrize(
    ("name", "example", "config", "goes"),
    [
        ("report-29283-hk4tq", "memory", KUBELET, True),
        ("thumbnails-5c6bb-7rjkl", "disk", None, True),
        ("build-8841-zj5xq", "disk", None, False),
        ("checkout-6d9f7c-x2x7p", "memory", KUBELET, False),
    ],
)
def test_a_change_that_is_made_to_the_files_is_true(
    name: str, example: str, config: str | None, goes: bool, tmp_path: Path
) -> None:
    """The files are edited as the sentence says, and `decide` is asked."""
    files = {"memory": MEMORY, "disk": DISK}[example]
    options = () if config is None else ("--config", config)
    found = answer("explain", name, *files, *options)["changes"]
    made = set()

    assert (found["when"], _victim(*files, *options) == name) == ("unless" if goes else "if", goes)
    for each in found["found"]:
        pods, more = files[3], list(options)
        if each["what"] == "request":
            resource, value = each["subject"], each["value"]
            pods = edited(f"{example}/pods.json", tmp_path, lambda it, r=resource, v=value: _request(it, name, r, v))
        elif each["what"] == "priority":
            pods = edited(f"{example}/pods.json", tmp_path, lambda it, v=each["value"]: _priority(it, name, v))
        elif each["what"] == "threshold":
            signal = each["subject"].partition(".")[2]
            unit = "%" if each["unit"].startswith("hundredths") else ""
            more += ["--eviction-hard", f"{signal}<{each['value'] / 100 if unit else each['value']}{unit}"]
        else:
            continue
        made.add(each["what"])
        victim = _victim("--summary", files[1], "--pods", pods, *more)
        assert (victim == name) is not goes, each
        assert [pod["name"] for pod in each["then"]["evicts"]] == ([victim] if victim else []), each
    assert made >= {"priority"}


def test_a_pod_of_files_that_is_not_there() -> None:
    done = run("explain", "nothing", *MEMORY)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1] == "error: no pod `nothing` runs on node `worker-1`"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--summary", MEMORY[1]), "--pods is missing: --summary and --pods describe a node together"),
        ((*MEMORY, "--node", "n1"), "--node is a node of a cluster, --summary and --pods are files: give one of them"),
        (("last", *MEMORY), "a decision is looked up in the journal of a node of this machine"),
        (("decision/yesterday", *MEMORY), "`yesterday` is neither a time nor `last`"),
        (("node/other", *MEMORY), "this is node `worker-1`, not `other`"),
    ],
)
def test_what_cannot_be_asked_is_one_line(arguments: tuple[str, ...], said: str) -> None:
    done = run("explain", *arguments)
    assert done.exit_code in (1, 2)
    assert done.stdout == ""
    assert any(said in line and line.startswith("error: ") for line in done.stderr.splitlines())


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_a_user_that_may_not_read_the_journal_is_told_so(guarded: Guarded) -> None:
    done = as_nobody("why", "leak", *guarded.where)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"error: cannot read the journal in `{guarded.node_state}/journal`: permission denied\n"
