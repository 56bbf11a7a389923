"""`jettison lint` and `recommend`: files, directories, a live node, exit codes, SARIF, hostile input, its document."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jettison import events
from jettison.agent.journal.journal import Journal
from jettison.agent.journal.recorder import JournalRecorder
from jettison.agent.sinks.journal import JournalSink
from jettison.engine.lint.table import RULES
from jettison.engine.node.evictions import HARD_GRACE, Eviction, by_hand
from tests.agent.scripted_runtime import HandClock
from tests.builders import GI, MI, SECOND_NS, node, pod, policy, snapshot
from tests.cli.guarded import Guarded
from tests.cli.running import EXAMPLES, IDLE, KUBELET, MEMORY, answer, run

WORKLOADS = """apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: kube-system}
spec: {template: {metadata: {labels: {app: agent}}, spec: {containers: []}}}
---
# One replica, which must be there.
apiVersion: apps/v1
kind: Deployment
metadata: {name: db, namespace: shop}
spec: {replicas: 1, template: {metadata: {labels: {app: db}}}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: db, namespace: shop}
spec: {minAvailable: 1, selector: {matchLabels: {app: db}}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: typo, namespace: shop}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: dbb}}}
"""
GOOD = """apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
evictionHard: {memory.available: 500Mi, nodefs.available: 10%, nodefs.inodesFree: 5%, imagefs.available: 15%,
  imagefs.inodesFree: 5%, pid.available: "500"}
"""


def findings(*arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = answer("lint", *arguments)["findings"]
    return found


def test_manifests_of_a_directory_are_checked_with_their_lines(tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text(WORKLOADS)
    (tmp_path / "values.yaml").write_text("replicas: 3\n")
    (tmp_path / "kubelet.yaml").write_text(GOOD)

    found = findings(str(tmp_path), "--capacity-memory", "8Gi")

    assert {(each["rule"], each["key"], each["line"]) for each in found} == {
        ("daemonset-without-priority", "DaemonSet kube-system/agent", 1),
        ("single-replica-budget", "PodDisruptionBudget shop/db", 12),
        ("budget-matches-nothing", "PodDisruptionBudget shop/typo", 17),
    }
    assert all(each["source"] == str(tmp_path / "all.yaml") and each["fix"] for each in found)
    text = run("lint", str(tmp_path), "--capacity-memory", "8Gi").stdout
    assert f"warning: {tmp_path}/all.yaml:12: PodDisruptionBudget shop/db: wants the only pod of" in text
    assert "[single-replica-budget]\n  fix: run two replicas, or write maxUnavailable: 1\n" in text
    assert text.endswith("no errors, 3 warnings, no notes; 3 files\n")


def test_what_kubectl_prints_is_read_as_well(tmp_path: Path) -> None:
    listing = {"kind": "DaemonSetList", "items": [{"metadata": {"name": "a"}, "spec": {"template": {}}}]}
    (tmp_path / "ds.json").write_text(json.dumps(listing))
    assert [each["key"] for each in findings(str(tmp_path))] == ["DaemonSet default/a"]


@pytest.mark.parametrize(("fail_on", "code"), [("error", 0), ("warning", 2), ("note", 2), ("never", 0)])
def test_the_exit_code_is_what_was_asked_for(fail_on: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text(WORKLOADS)
    assert run("lint", str(tmp_path), "--fail-on", fail_on).exit_code == code
    ignored = ("daemonset-without-priority", "single-replica-budget", "budget-matches-nothing")
    options = [each for name in ignored for each in ("--ignore", name)]
    assert run("lint", str(tmp_path), "--fail-on", "note", *options).exit_code == 0


def test_config_check_is_one_entrance_to_it() -> None:
    """The same findings, but for notes."""
    odd = str(EXAMPLES / "memory/odd.yaml")
    checked = answer("config", "check", odd, *MEMORY[:2])
    linted = findings(odd, *MEMORY[:2])
    assert checked["warnings"] == [
        {k: v for k, v in each.items() if k != "severity"} for each in linted if each["severity"] == "warning"
    ]
    assert {each["rule"] for each in linted if each["severity"] == "note"} == {"missing-signal"}


def test_an_edit_is_tried_on_a_node_as_it_is(tmp_path: Path) -> None:
    edit = tmp_path / "edit.yaml"
    edit.write_text(GOOD.replace("500Mi", "5Gi"))

    preview = answer("lint", str(edit), *IDLE, "--against-live")["againstLive"]

    assert preview["node"] == "worker-1"
    assert preview["evictsNow"][0]["name"] == "node-exporter-4wq8z"
    assert all(each["threshold"] == "memory.available<5Gi" for each in preview["evictsNow"])
    done = run("lint", str(edit), *IDLE, "--against-live")
    assert (
        f"this configuration would evict these {len(preview['evictsNow'])} pods from node worker-1 now:" in done.stdout
    )
    harmless = answer("lint", KUBELET, *IDLE, "--against-live")["againstLive"]
    assert (harmless["evictsNow"], harmless["evictsAfterGrace"]) == ([], [])


def test_an_edit_is_tried_on_a_running_node(guarded: Guarded, tmp_path: Path) -> None:
    edit = tmp_path / "edit.yaml"
    edit.write_text(GOOD.replace("500Mi", "127Mi"))

    preview = guarded.answer("lint", str(edit), "--against-live", "--fail-on", "never")["againstLive"]

    assert preview["node"] == guarded.name
    assert {each["name"] for each in preview["evictsNow"]} >= {"web"}
    assert "guard" not in {each["name"] for each in preview["evictsNow"]}


def test_growth_on_record_is_held_against_the_threshold(unguarded: Guarded, tmp_path: Path) -> None:
    """The leak took tens of MiB between two looks of the agent."""
    edit = tmp_path / "edit.yaml"
    edit.write_text(GOOD.replace("500Mi", "1Mi"))
    found = unguarded.answer("lint", str(edit))["findings"]
    assert "growth-outruns-threshold" in {each["rule"] for each in found}


def test_sarif(tmp_path: Path) -> None:
    """What the standard asks for, and that every result names a rule of its run."""
    (tmp_path / "all.yaml").write_text(WORKLOADS)
    (tmp_path / "broken.yaml").write_text("a: [\n")
    done = run("lint", str(tmp_path), "-o", "sarif")
    document = json.loads(done.stdout)
    (only,) = document["runs"]
    rules = only["tool"]["driver"]["rules"]

    assert (document["version"], done.exit_code) == ("2.1.0", 2)
    assert [rule["id"] for rule in rules] == [rule.name for rule in RULES]
    for result in only["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note")
        assert result["message"]["text"]
        (location,) = result["locations"]
        assert location["physicalLocation"]["artifactLocation"]["uri"].startswith(tmp_path.as_uri())
        assert location["physicalLocation"]["region"]["startLine"] >= 1
    assert {result["ruleId"] for result in only["results"]} >= {"unreadable-file", "single-replica-budget"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff\xfe", "not UTF-8"),
        (b"kind: Pod\nspec: {" + b"a: {" * 2000, "nested"),
        (b"a: &a [x, x]\nb: &b [*a, *a]\n" + b"".join(b"c%d: &c%d [*b, *b, *b, *b]\n" % (n, n) for n in range(3)), ""),
        (b"kind: Deployment\nspec: {replicas: many}\n", "replicas"),
        (b"kind: PodDisruptionBudget\nmetadata: [1]\n", "metadata"),
        (b'{"kind": "Pod"', "truncated"),
    ],
)
def test_a_hostile_file_is_one_finding(content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_bytes(content)
    found = findings(str(tmp_path), "--fail-on", "never")
    assert len(found) <= 1
    if said:
        assert found[0]["rule"] == "unreadable-file"
        assert said in found[0]["message"]


@pytest.mark.parametrize("content", ["evictionHard: {}", "kind: kubeletConfiguration", "- 1", "", None])
def test_a_path_in_which_nothing_is_checked_is_named(content: str | None, tmp_path: Path) -> None:
    """A configuration whose kind is misspelt would seem to be in order."""
    path = tmp_path / "kubelet.yaml"
    if content is None:
        path.mkdir()
    else:
        path.write_text(content)
    said = f"{path}: holds neither a KubeletConfiguration nor an object that a rule is about"
    done = run("lint", str(path), KUBELET)
    assert (done.exit_code, done.stderr) == (0, f"warning: {said}\n")
    assert answer("lint", str(path))["warnings"] == [said]


def test_pipes_and_links_of_a_directory_are_not_followed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "loop").symlink_to(tmp_path)
    assert findings(str(tmp_path)) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "name a file or a directory, or --kube for a cluster, or a flag of the kubelet"),
        (("/nonexistent/file",), "cannot read `/nonexistent/file`: no such file or directory"),
        ((KUBELET, "--ignore", "no-such-rule"), "there is no rule `no-such-rule`"),
        ((str(EXAMPLES / "memory"), *IDLE, "--against-live"), "--against-live takes one configuration"),
    ],
)
def test_what_cannot_be_checked_is_one_line(arguments: tuple[str, ...], said: str) -> None:
    done = run("lint", *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert any(said in line and line.startswith("error: ") for line in done.stderr.splitlines())


def test_the_document_has_every_rule() -> None:
    """A section for each, in the order of the table, with its severity, what it needs and its summary."""
    text = (EXAMPLES.parent / "lint.md").read_text()
    sections = re.findall(r"^### ([a-z-]+)\n\n(.*?)\n\n(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL)
    assert [name for name, _, _ in sections] == [rule.name for rule in RULES]
    for rule, (_, head, body) in zip(RULES, sections, strict=True):
        assert head == f"*{rule.severity.value}; needs {rule.needs.value}.* {rule.summary}", rule.name
        assert len(body.split()) > 15, rule.name


def test_recommendations_come_from_what_was_recorded(tmp_path: Path) -> None:
    """Memory fell by 200Mi within 10 s once, and the slowest of two hard evictions took 2.7 s from its alarm on.

    What an operator evicted, or a soft threshold, took as long as the pod's own grace period, and does not count.
    """
    directory = tmp_path / "node" / "n1"
    journal, clock = Journal.open(directory / "journal"), HandClock()
    recorder = JournalRecorder(journal, directory / "history.json", policy(), clock, "n1", lambda _: None)
    sink = JournalSink(journal, "n1")
    for place in range(20):
        available = 2 * GI - (200 * MI if place >= 10 else 0)
        seen = snapshot(0, node(memory=available, capacity=4 * GI)).shifted(clock.steady_ns() + place * 10 * SECOND_NS)
        recorder.prepare(seen, is_urgent=False)
    leak, minute = pod("leak"), 60 * SECOND_NS
    hard = Eviction(leak, "", HARD_GRACE, "memory.available")
    evictions = (hard, 2 * 10**8, 25 * 10**8), (hard, 10**7, 5 * 10**8), (by_hand(leak), 0, minute)
    for order, told_ns, took_ns in (*evictions, (replace(hard, grace_seconds=90), 3 * 10**8, minute)):
        sink.take(events.EvictionStarted(order, told_ns), clock.now_ns())
        sink.take(events.PodEvicted(order, took_ns), clock.now_ns())
    recorder.close()
    journal.close()

    found = answer("recommend", "--state-dir", str(tmp_path))

    memory = next(each for each in found["signals"] if each["signal"] == "memory.available")
    assert memory["steepestFall"]["perSecond"] == 20 * MI
    # 20Mi/s for 2.7 s and 16Mi that count as gone; and for 10 s more.
    assert (memory["withAlarms"], memory["every10s"]) == (70 * MI, 270 * MI)
    assert found["reaction"]["withAlarms"]["evictions"] == 2
    text = run("recommend", "--state-dir", str(tmp_path)).stdout
    assert "a pod is told 200.0 ms after the alarm and has ended 2.5 s later at worst, measured in 2 evictions" in text
    assert text.splitlines()[-1] == "--eviction-hard 'memory.available<70Mi'"
    assert run("recommend", "--state-dir", str(tmp_path), "--since", "1s").exit_code == 1
