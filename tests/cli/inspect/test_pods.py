"""`jettison pods` against a real node, with its agent and without."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import pytest
import yaml

from jettison.runtimes.linux.proc import boot_id
from jettison.runtimes.linux.processes import read_process
from tests.cli.guarded import FLAGS, Guarded, as_nobody, pod, shell
from tests.cli.running import run

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")

STATES = {
    "default/flaky": ["1/1", "Running", "1 (ago)", "Burstable", "0"],
    "default/refused": ["0/1", "NodeAffinity", "0", "BestEffort", "0"],
    "default/web": ["2/2", "Running", "0", "Burstable", "0"],
    "kube-system/guard": ["1/1", "Running", "0", "BestEffort", "2000001000"],
    "shop/leak": ["0/1", "Evicted", "0", "BestEffort", "0"],
    "shop/web": ["1/1", "Running", "0", "Burstable", "0"],
}


def states(text: str) -> dict[str, list[str]]:
    """By pod, what stands in its row; without ages, which are others every time."""
    head, *lines = text.splitlines()
    assert head.split() == ["NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE", "QOS", "PRIORITY"]
    cells = [re.split(r"  +", re.sub(r"\([0-9ms]+ ago\)", "(ago)", line)) for line in lines]
    return {f"{each[0]}/{each[1]}": each[2:5] + each[6:] for each in cells}


FOR_GOOD = (
    "note: default/refused, shop/leak: does not come back by itself: `jettison restart` or a changed manifest brings "
    "it back, and so does an agent with --readmit\n"
)


def test_every_pod_is_listed_with_its_state(guarded: Guarded) -> None:
    done = guarded.run("pods")

    assert states(done.stdout) == STATES
    assert (done.returncode, done.stderr) == (0, FOR_GOOD)


def test_without_the_agent_the_records_say_the_same(unguarded: Guarded) -> None:
    done = unguarded.run("pods")

    assert states(done.stdout) == STATES
    note = f"note: no agent runs for node `{unguarded.name}`: this is what its records say\n"
    assert done.stderr == note + FOR_GOOD


def test_json_is_a_pod_list(guarded: Guarded, unguarded: Guarded) -> None:
    """The same one with the agent and without, but for names and times."""
    for node in (guarded, unguarded):
        listed = node.answer("pods")
        items = {(item["metadata"]["namespace"], item["metadata"]["name"]): item for item in listed["items"]}
        assert (listed["kind"], listed["apiVersion"]) == ("PodList", "v1")
        assert items["shop", "leak"]["status"]["reason"] == "Evicted"
        assert [each["ready"] for each in items["default", "web"]["status"]["containerStatuses"]] == [True, True]
        again = items["default", "flaky"]["status"]["containerStatuses"][0]
        uid = items["default", "flaky"]["metadata"]["uid"]
        assert (again["started"], again["containerID"]) == (True, f"jettison://{uid}/main/1")
        ended = again["lastState"]["terminated"]
        assert (ended["exitCode"], ended["reason"], ended["containerID"]) == (3, "Error", f"jettison://{uid}/main/0")
        assert (
            items["default", "refused"]["status"]["message"]
            == "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
        )


def test_yaml_holds_what_json_holds(unguarded: Guarded) -> None:
    assert yaml.safe_load(unguarded.here("pods", "-o", "yaml").stdout) == unguarded.answer("pods")


def test_a_namespace_can_be_asked_for(guarded: Guarded) -> None:
    assert set(states(guarded.here("pods", "-n", "shop").stdout)) == {"shop/leak", "shop/web"}
    done = guarded.here("pods", "-n", "nowhere")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == "note: there are no pods in namespace `nowhere`\n"


def test_the_list_and_the_agents_summary_can_be_ranked(guarded: Guarded, tmp_path: Path) -> None:
    """What a node says of itself is what `rank` reads."""
    (tmp_path / "pods.json").write_text(json.dumps(guarded.answer("pods")))
    (tmp_path / "summary.json").write_text(json.dumps(guarded.ask("/stats/summary")))

    files = ("--pods", str(tmp_path / "pods.json"), "--summary", str(tmp_path / "summary.json"))
    ranked = json.loads(run("rank", *files, "-o", "json").stdout)

    names = [f"{each['namespace']}/{each['name']}" for each in ranked["candidates"]]
    assert sorted(names) == ["default/flaky", "default/web", "kube-system/guard", "shop/web"]
    assert all(each["hasStatistics"] for each in ranked["candidates"])


def test_of_a_container_that_died_unseen_it_is_told(tmp_path: Path) -> None:
    """The record says `running`; no agent was there to write down that it ended."""
    node = Guarded(tmp_path, FLAGS)
    node.write(pod("quiet", shell("main", "sleep 600")))
    node.up()
    # It has a process before it runs: an agent that is killed in between leaves `starting`.
    node.wait(lambda: "running" in (each["state"] for record in node.records() for each in record["containers"]), "it")
    node.kill()
    try:
        os.kill(node.pids("quiet")[0], signal.SIGKILL)
        node.wait(lambda: not node.pids("quiet"), "its end")

        assert states(node.here("pods").stdout)["default/quiet"][:2] == ["0/1", "ContainerStatusUnknown"]
    finally:
        node.stop()


@pytest.mark.parametrize(
    ("born", "row"),
    [
        ({}, ["0/1", "ContainerCreating", "0"]),
        ({"start_ticks": 0}, ["0/1", "ContainerStatusUnknown", "0"]),
        ({"start_ticks": None}, ["1/1", "Running", "0"]),
    ],
    ids=["unborn", "dead", "alive"],
)
def test_of_a_container_whose_start_was_not_seen_it_is_told(
    tmp_path: Path, born: dict[str, int | None], row: list[str]
) -> None:
    """The agent was killed between the birth of a process and the line that says that it runs: as it would go on."""
    me = read_process(os.getpid())
    assert me is not None
    if born:
        born = {"pid": me.pid, "start_ticks": me.start_ticks if born["start_ticks"] is None else 0}
    container = {"name": "main", "state": "starting", "run": 0, **born}
    document = pod("young", shell("main", "sleep 600"))
    record = {"uid": "young", "document": document, "boot_id": boot_id(), "is_initialized": True}
    records = tmp_path / "node" / "n1" / "pods"
    records.mkdir(parents=True)
    (records / "young.json").write_text(json.dumps({**record, "containers": [container]}) + "\n")

    done = run("pods", "--state-dir", str(tmp_path))

    assert states(done.stdout)["default/young"][:3] == row


def test_a_pod_on_its_way_out_is_told(tmp_path: Path) -> None:
    """A pod that ignores SIGTERM keeps its phase for as long as its grace period lasts."""
    node = Guarded(tmp_path, FLAGS)
    stubborn = pod("stubborn", shell("main", "trap '' TERM; exec sleep 600"))
    stubborn["spec"]["terminationGracePeriodSeconds"] = 4
    node.write(stubborn)
    node.up()
    node.wait(lambda: node.pids("stubborn"), "the pod")
    try:
        (node.manifests / "default-stubborn.json").unlink()
        node.wait(lambda: any(record["ending"] for record in node.records()), "its end")

        assert states(node.here("pods").stdout)["default/stubborn"][:2] == ["1/1", "Terminating"]
    finally:
        node.stop()


def test_records_that_make_no_sense_do_no_harm(tmp_path: Path) -> None:
    """A file that is no record is the agent's to complain about; a record of an impossible pod is shown as it is."""
    records = tmp_path / "node" / "n1" / "pods"
    records.mkdir(parents=True)
    (records / "torn.json").write_bytes(b'{"uid":"to')
    (records / "odd.json").write_bytes(b'{"uid":"../../x","document":{}}')
    (records / "deep.json").write_bytes(b'{"uid":"deep","document":' + b'{"a":' * 5000 + b"1" + b"}" * 5001)
    (records / "empty.json").write_bytes(b'{"uid":"empty","document":{}}\n{"uid":"empty","docu')
    (records / "note.txt").write_text("not a record")

    done = run("pods", "--state-dir", str(tmp_path))

    assert done.exit_code == 0
    assert [line.split() for line in done.stdout.splitlines()[1:]] == [
        ["0/0", "CreateContainerConfigError", "0", "-", "BestEffort", "0"]
    ]


@needs_root
def test_a_user_that_may_not_see_the_node_is_told_so(guarded: Guarded) -> None:
    """And not that there are no pods."""
    done = as_nobody("pods", *guarded.where)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: cannot read `")
    assert done.stderr.endswith("permission denied\n")
