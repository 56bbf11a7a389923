"""`jettison decide`: one step after another on the nodes of the documentation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.running import DISK, EXAMPLES, IDLE, KUBELET, MEMORY, answer, edited, run

AFTER = str(EXAMPLES / "disk/after-reclaim.json")
SOFT_ONLY = ("--config", KUBELET, "--eviction-hard=")


def threshold(document: dict[str, Any], signal: str, *, hard: bool = True) -> dict[str, Any]:
    (found,) = (each for each in document["thresholds"] if each["signal"] == signal and each["hard"] is hard)
    assert isinstance(found, dict)
    return found


def at(minute: int, tmp_path: Path, path: str = "memory/summary.json") -> tuple[str, ...]:
    """The node's files, with the summary taken so many minutes after twelve."""
    text = (EXAMPLES / path).read_text().replace("T12:00", f"T12:{minute:02}").replace("T11:40", f"T12:{minute:02}")
    summary = tmp_path / f"summary-{minute}.json"
    summary.write_text(text)
    return "--summary", str(summary), *MEMORY[2:]


def test_an_eviction_is_told_to_the_last_detail() -> None:
    document = answer("decide", *MEMORY, "--config", KUBELET)
    decision = document["decision"]
    message = (
        "The node was low on resource: memory. Threshold quantity: 100Mi, available: 73768Ki. Container report was "
        "using 2182148Ki, request is 256Mi, has larger consumption of memory. "
    )

    assert (decision["action"], decision["signal"], decision["atMostOne"]) == ("evict", "memory.available", True)
    assert decision["evictions"] == [
        {
            "namespace": "batch",
            "name": "report-29283-hk4tq",
            "uid": "0b2a0d8b-6fbe-5c0e-a8d4-456666c39544",
            "reason": "Evicted",
            "message": message,
            "signal": "memory.available",
            "graceSeconds": 1,
            "effectiveGraceSeconds": 1,
            "sigkillAfterSeconds": 2,
            "annotations": {
                "offending_containers": "report",
                "offending_containers_usage": "2182148Ki",
                "starved_resource": "memory",
            },
            "condition": {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "TerminationByKubelet",
                "message": message,
                "observedGeneration": 0,
            },
        }
    ]
    assert [each["position"] for each in decision["ranking"]] == list(range(1, 8))
    assert decision["nodeEvents"] == [
        {"type": "Warning", "reason": "EvictionThresholdMet", "message": "Attempting to reclaim memory"}
    ]


def test_the_exact_message_is_printed() -> None:
    text = run("decide", *MEMORY, "--config", KUBELET).stdout

    assert (
        "Decision: evict batch/report-29283-hk4tq: memory.available is 72.0Mi (75538432), the threshold is 100Mi"
        in text
    )
    assert "  message  The node was low on resource: memory. Threshold quantity: 100Mi, available: 73768Ki. " in text
    assert "  grace    1s (its own is 600s); SIGKILL after 2s" in text


def test_readings_stand_against_thresholds() -> None:
    document = answer("decide", *MEMORY, "--config", KUBELET)

    assert threshold(document, "memory.available") == {
        "signal": "memory.available",
        "hard": True,
        "amount": "100Mi",
        "gracePeriod": "0s",
        "minimumReclaim": "200Mi",
        "derivedFrom": None,
        "from": f"{KUBELET}:4",
        "threshold": {"text": "100Mi", "value": 104857600},
        "target": {"text": "300Mi", "value": 314572800},
        "available": {"text": "73768Ki", "value": 75538432},
        "capacity": {"text": "8Gi", "value": 8589934592},
        "time": "2026-09-01T12:00:07Z",
        "state": "met",
        "crossed": True,
        "starved": True,
        "since": "2026-09-01T12:00:07Z",
        "metAt": "2026-09-01T12:00:07Z",
    }
    soft = threshold(document, "memory.available", hard=False)
    assert (soft["state"], soft["metAt"]) == ("crossed", "2026-09-01T12:01:37Z")
    assert threshold(document, "nodefs.available")["state"] == "clear"
    assert threshold(document, "allocatableMemory.available")["derivedFrom"] == "memory.available"
    assert threshold(document, "containerfs.available")["state"] == "from the next step on"


def test_conditions_follow_at_once() -> None:
    document = answer("decide", *MEMORY, "--config", KUBELET)

    assert document["conditions"][0] == {
        "type": "MemoryPressure",
        "status": "True",
        "changed": True,
        "lastObserved": "2026-09-01T12:00:07Z",
        "until": "2026-09-01T12:05:07Z",
    }
    assert [each["status"] for each in document["conditions"]] == ["True", "False", "False"]


def test_an_idle_node_is_left_alone() -> None:
    document = answer("decide", *IDLE, "--config", KUBELET)

    assert document["decision"]["action"] == "nothing"
    assert document["decision"]["why"] == "no resources are starved"
    assert {each["state"] for each in document["thresholds"]} == {"clear", "from the next step on"}


def test_a_reclaim_has_two_endings() -> None:
    decision = answer("decide", *DISK)["decision"]

    assert decision["action"] == "reclaim"
    assert decision["reclaim"] == ["containers", "images"]
    assert decision["otherwise"]["action"] == "evict"
    assert decision["otherwise"]["evictions"][0]["name"] == "thumbnails-5c6bb-7rjkl"


def test_a_reclaim_that_sufficed() -> None:
    document = answer("decide", *DISK, "--after-reclaim", AFTER)

    assert document["afterReclaim"]["action"] == "nothing"
    assert document["afterReclaim"]["belowTarget"] == []
    assert "After the reclaim: do nothing" in run("decide", *DISK, "--after-reclaim", AFTER).stdout


def test_a_reclaim_that_did_not_suffice() -> None:
    document = answer("decide", *DISK, "--after-reclaim", DISK[1])

    assert document["afterReclaim"]["evictions"][0]["name"] == "thumbnails-5c6bb-7rjkl"
    assert document["afterReclaim"]["belowTarget"][0] == (
        "imagefs.available 19.0Gi (20401995776), target 30.0Gi (32212256000)"
    )


@pytest.mark.parametrize(("profile", "action"), [("kubelet", "evict"), ("improved", "nothing")])
def test_an_unrelated_threshold_forces_an_eviction_unless_improved(profile: str, action: str) -> None:
    """Soft memory within its grace period: Kubernetes evicts for disk although the disk was relieved."""
    soft = ("--eviction-soft=memory.available<10Gi", "--eviction-soft-grace-period=memory.available=1h")
    hard = "--eviction-hard=imagefs.available<15%"
    document = answer("decide", *DISK, hard, *soft, "--after-reclaim", AFTER, "--profile", profile)

    assert document["decision"]["action"] == "reclaim"
    assert document["afterReclaim"]["action"] == action


def test_after_reclaim_without_a_reclaim_is_said() -> None:
    warnings = answer("decide", *IDLE, "--after-reclaim", AFTER)["warnings"]

    assert warnings == ["--after-reclaim is ignored: no reclaim was ordered"]


def test_critical_pods_are_spared_by_name(tmp_path: Path) -> None:
    def only_critical(document: dict[str, Any]) -> None:
        document["items"] = [each for each in document["items"] if each["spec"]["priority"] > 10**9]

    pods = edited("memory/pods.json", tmp_path, only_critical)
    decision = answer("decide", *MEMORY[:2], "--pods", pods)["decision"]

    assert (decision["action"], decision["why"]) == ("nothing", "unable to evict any pods from the node")
    assert [(each["name"], each["why"]) for each in decision["spared"]] == [
        ("etcd-worker-1", "static pod"),
        ("kube-proxy-t7m2c", "critical priority"),
    ]
    assert (
        "spared   kube-system/kube-proxy-t7m2c: critical priority" in run("decide", *MEMORY[:2], "--pods", pods).stdout
    )


def test_pods_over_their_limits_all_go(tmp_path: Path) -> None:
    def limit(document: dict[str, Any]) -> None:
        document["items"][3]["spec"]["volumes"][0]["emptyDir"]["sizeLimit"] = "4Gi"
        document["items"][0]["spec"]["containers"][0]["resources"]["limits"] = {"ephemeral-storage": "12Gi"}

    pods = edited("disk/pods.json", tmp_path, limit)
    decision = answer("decide", *DISK[:2], "--pods", pods)["decision"]

    assert (decision["atMostOne"], decision["signal"]) == (False, None)
    assert [(each["name"], each["signal"]) for each in decision["evictions"]] == [
        ("build-8841-zj5xq", "ephemeralpodfs.limit"),
        ("vector-9h2pd", "emptydirfs.limit"),
    ]
    text = run("decide", *DISK[:2], "--pods", pods).stdout
    assert 'message  Usage of EmptyDir volume "buffer" exceeds the limit "4Gi". ' in text


def test_grace_periods_run_from_call_to_call(tmp_path: Path) -> None:
    history = ("--history", str(tmp_path / "history.json"))
    first = answer("decide", *at(0, tmp_path), *SOFT_ONLY, *history)
    second = answer("decide", *at(1, tmp_path), *SOFT_ONLY, *history)
    third = answer("decide", *at(2, tmp_path), *SOFT_ONLY, *history)

    assert [each["decision"]["action"] for each in (first, second, third)] == ["nothing", "nothing", "evict"]
    assert third["thresholds"][0]["since"] == "2026-09-01T12:00:07Z"
    eviction = third["decision"]["evictions"][0]
    assert (eviction["graceSeconds"], eviction["sigkillAfterSeconds"]) == (60, 60)


def test_a_condition_outlives_its_cause(tmp_path: Path) -> None:
    history = ("--history", str(tmp_path / "history.json"))
    run("decide", *at(0, tmp_path), *SOFT_ONLY, *history)
    document = answer("decide", *at(3, tmp_path, "memory/idle-summary.json"), *SOFT_ONLY, *history)

    assert document["thresholds"][0]["state"] == "resolved"
    assert document["conditions"][0]["status"] == "True"
    text = run("decide", *at(4, tmp_path, "memory/idle-summary.json"), *SOFT_ONLY, *history).stdout
    assert "no longer observed, reported for another 1m0s" in text
    late = answer("decide", *at(6, tmp_path, "memory/idle-summary.json"), *SOFT_ONLY, *history)
    assert late["conditions"][0] == {
        "type": "MemoryPressure",
        "status": "False",
        "changed": True,
        "lastObserved": "2026-09-01T12:00:07Z",
        "until": None,
    }


def test_the_same_reading_does_not_evict_twice(tmp_path: Path) -> None:
    arguments = ("decide", *MEMORY, "--history", str(tmp_path / "history.json"))
    assert answer(*arguments)["decision"]["action"] == "evict"

    again = answer(*arguments)

    assert again["decision"]["action"] == "nothing"
    assert (threshold(again, "memory.available")["state"], again["thresholds"][0]["starved"]) == ("met", False)
    assert "met, reading not newer" in run(*arguments).stdout


def test_minimum_reclaim_keeps_a_threshold_met(tmp_path: Path) -> None:
    history = ("--history", str(tmp_path / "history.json"))
    answer("decide", *at(0, tmp_path), *history, "--eviction-hard=memory.available<100Mi")
    reclaim = ("--eviction-hard=memory.available<100Mi", "--eviction-minimum-reclaim=memory.available=8Gi")
    answer("decide", *at(1, tmp_path), *history, *reclaim)

    document = answer("decide", *at(2, tmp_path, "memory/idle-summary.json"), *history, *reclaim)

    met = threshold(document, "memory.available")
    assert (met["state"], met["crossed"], document["decision"]["action"]) == ("met", False, "evict")


def test_thresholds_derived_from_the_layout_count_from_the_second_step_on(tmp_path: Path) -> None:
    history = ("--history", str(tmp_path / "history.json"))
    answer("decide", *IDLE, *history)

    assert threshold(answer("decide", *MEMORY, *history), "containerfs.available")["state"] == "clear"


def test_what_is_now_is_said() -> None:
    assert answer("decide", *DISK)["nowFrom"] == "the newest time in the summary"
    told = answer("decide", *DISK, "--now", "2026-09-03T02:16:00.5+02:00")
    assert (told["now"], told["nowFrom"]) == ("2026-09-03T00:16:00.500000000Z", "--now")
    assert answer("decide", *DISK, "--now", "now")["nowFrom"] == "the clock"


def test_a_summary_without_times_takes_the_clock(tmp_path: Path) -> None:
    def strip(document: Any) -> None:
        if isinstance(document, dict):
            document.pop("time", None)
        for each in document.values() if isinstance(document, dict) else document if isinstance(document, list) else ():
            strip(each)

    summary = edited("disk/summary.json", tmp_path, strip)
    document = answer("decide", "--summary", summary, *DISK[2:])

    assert document["nowFrom"] == "the clock, because the summary has no times"
    assert document["decision"]["action"] == "reclaim"


def test_a_history_from_the_future_is_said(tmp_path: Path) -> None:
    history = ("--history", str(tmp_path / "history.json"))
    run("decide", *at(5, tmp_path), *history)

    result = run("decide", *at(1, tmp_path), *history)

    assert "warning: the history goes to 2026-09-01T12:05:07Z, later than this step" in result.stderr


def test_yaml_holds_what_json_holds() -> None:
    assert yaml.safe_load(run("decide", *DISK, "-o", "yaml").stdout) == answer("decide", *DISK)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--now", "yesterday"), "error: --now: `yesterday` is not a time such as `2030-01-01T00:00:00Z`"),
        (("--after-reclaim", "/nowhere"), "error: cannot read `/nowhere`: no such file or directory"),
        (("--config", "/nowhere"), "error: cannot read `/nowhere`: no such file or directory"),
        (
            ("--config-dir", "/nowhere"),
            "error: cannot read the drop-in directory `/nowhere`: no such file or directory",
        ),
        (("--eviction-hard=memory.available<1GB",), "error: --eviction-hard: evictionHard.memory.available is `1GB`: "),
    ],
)
def test_wrong_arguments_end_in_a_sentence(arguments: tuple[str, ...], message: str) -> None:
    result = run("decide", *DISK, *arguments)

    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(message)


def test_a_file_may_come_from_standard_input() -> None:
    config = Path(KUBELET).read_text()
    result = run("decide", *MEMORY, "--config", "-", "-o", "json", stdin=config)

    assert threshold(json.loads(result.stdout), "memory.available")["from"] == "standard input:4"


def test_the_json_is_documented() -> None:
    """Every key that is printed stands in the documentation."""
    text = (EXAMPLES.parent / "commands.md").read_text()
    document = answer("decide", *DISK, "--after-reclaim", AFTER)
    eviction = document["decision"]["otherwise"]["evictions"][0]
    shown = [document, document["thresholds"][0], document["conditions"][0], document["decision"], eviction]

    for key in {key for each in (*shown, eviction["condition"], document["afterReclaim"]) for key in each}:
        assert f"`{key}`" in text, key
