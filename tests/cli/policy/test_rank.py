"""`jettison rank` on the nodes of the documentation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.running import DISK, EXAMPLES, IDLE, KUBELET, MEMORY, answer, edited, run


def order(document: dict[str, Any]) -> list[str]:
    """Names of the pods, first to go first, without the random ends that controllers give them."""
    return [each["name"].partition("-")[0] for each in document["candidates"]]


def test_the_starved_signal_is_chosen_and_said() -> None:
    result = run("rank", *MEMORY, "--config", KUBELET)

    assert result.exit_code == 0
    assert result.stdout.startswith(
        "memory.available is starved: 72.0Mi (75538432) available, the threshold is 100Mi\n\n#  POD "
    )
    assert result.stderr == "note: left out 2 pods: 1 of other nodes than `worker-1`, 1 that has ended\n"


def test_the_order_has_every_key() -> None:
    document = answer("rank", *MEMORY, "--config", KUBELET)

    assert order(document) == ["report", "node", "checkout", "etcd", "kube", "cache", "search"]
    assert document["candidates"][0] == {
        "position": 1,
        "namespace": "batch",
        "name": "report-29283-hk4tq",
        "uid": "0b2a0d8b-6fbe-5c0e-a8d4-456666c39544",
        "qosClass": "Burstable",
        "critical": False,
        "whyCritical": None,
        "hasStatistics": True,
        "exceedsRequest": True,
        "priority": 0,
        "usage": {"text": "2279209943", "value": 2279209943},
        "request": {"text": "256Mi", "value": 268435456},
        "excess": {"text": "2010774487", "value": 2010774487},
        "why": "1.9Gi above its request of 256Mi",
        "beforeNext": "larger excess (+1.9Gi > +89.8Mi)",
        "tiesWithNext": False,
    }


def test_a_static_pod_is_measured_under_its_own_uid() -> None:
    """The API has its mirror, whose uid no statistics know; without the join it would go first."""
    (etcd,) = (each for each in answer("rank", *MEMORY)["candidates"] if each["name"].startswith("etcd"))

    assert etcd["hasStatistics"]
    assert etcd["whyCritical"] == "static pod"


def test_without_pressure_it_is_the_order_for_memory() -> None:
    document = answer("rank", *IDLE)

    assert (document["signal"], document["chosenBy"]) == ("memory.available", "default")
    assert document["why"] == "nothing is starved; this is the order for memory.available"


def test_a_soft_threshold_that_is_crossed_is_chosen_too() -> None:
    document = answer("rank", *MEMORY, "--config", KUBELET, "--eviction-hard=")

    assert document["chosenBy"] == "crossed"
    assert document["why"].endswith("the soft threshold is 500Mi (memory.available<500Mi for 1m30s)")


def test_a_signal_can_be_asked_for() -> None:
    document = answer("rank", *MEMORY, "--signal", "pid.available")

    assert (document["chosenBy"], document["resource"]) == ("option", "pids")
    assert order(document)[0] == "report"
    assert document["candidates"][0]["request"] is None


def test_a_dedicated_image_filesystem_is_recognised_by_its_size() -> None:
    document = answer("rank", *DISK)

    assert (document["imageFs"], document["signal"]) == ("dedicated", "imagefs.available")
    assert order(document) == ["thumbnails", "build", "cilium", "postgres", "api", "vector"]
    assert document["notes"][-1] == "images have a filesystem of their own, so what counts here is: writable layers"


@pytest.mark.parametrize(
    ("image_fs", "first", "note"),
    [
        ("shared", "build", None),
        ("split", "thumbnails", "image layers are not measured by pod, so every usage is 0"),
    ],
)
def test_the_layout_can_be_told(image_fs: str, first: str, note: str | None) -> None:
    document = answer("rank", *DISK, "--signal", "imagefs.available", "--image-fs", image_fs)

    assert document["imageFs"] == image_fs
    assert order(document)[0] == first
    assert note is None or document["notes"][-1].startswith(note)


def test_the_improved_profile_ranks_inodes_by_inodes() -> None:
    arguments = ("rank", *DISK, "--signal", "nodefs.inodesFree", "--image-fs", "shared")

    assert order(answer(*arguments))[:2] == ["thumbnails", "build"]
    assert order(answer(*arguments, "--profile", "improved"))[:2] == ["build", "thumbnails"]
    assert "Kubernetes subtracts requests for bytes" in answer(*arguments)["notes"][-1]


def test_yaml_holds_what_json_holds() -> None:
    assert yaml.safe_load(run("rank", *DISK, "-o", "yaml").stdout) == answer("rank", *DISK)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "no node is given: --node is one of a cluster, --summary and --pods describe one in files"),
        (MEMORY[:2], "--pods is missing: --summary and --pods describe a node together"),
        (MEMORY[2:], "--summary is missing: --summary and --pods describe a node together"),
        ((*MEMORY, "--node", "n1"), "--node is a node of a cluster, --summary and --pods are files: give one of them"),
    ],
)
@pytest.mark.parametrize("command", ["rank", "decide"])
def test_which_node_must_be_said_once(command: str, arguments: tuple[str, ...], said: str) -> None:
    done = run(command, *arguments)

    assert (done.exit_code, done.stdout, done.stderr) == (2, "", f"error: {said}\n")


def test_without_a_configuration_the_defaults_are_assumed_and_said() -> None:
    assert answer("rank", *MEMORY)["chosenBy"] == "starved"
    assert "note: no --config: assuming the defaults" in run("rank", *MEMORY).stderr
    assert answer("rank", *MEMORY, "--eviction-hard=")["chosenBy"] == "default"
    for chosen in ("", "memory.available<1Gi"):
        assert "assuming" not in run("rank", *MEMORY, "--eviction-hard", chosen).stderr


def test_drop_ins_count(tmp_path: Path) -> None:
    head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
    (tmp_path / "10.conf").write_text(head + "evictionHard: {pid.available: 99%}\n")

    document = answer("rank", *IDLE, "--config", KUBELET, "--config-dir", str(tmp_path))

    assert document["signal"] == "pid.available"


def test_a_node_without_pods(tmp_path: Path) -> None:
    empty = edited("memory/pods.json", tmp_path, lambda document: document["items"].clear())
    result = run("rank", *MEMORY[:2], "--pods", empty)

    assert result.stdout.endswith("\n\nno pods to evict\n")
    assert "note: 7 pods of the summary not in " in result.stderr


def test_a_list_of_another_node_is_noticed(tmp_path: Path) -> None:
    def rename(document: dict[str, Any]) -> None:
        document["node"]["nodeName"] = "worker-9"

    renamed = edited("memory/summary.json", tmp_path, rename)
    result = run("rank", "--summary", renamed, *MEMORY[2:])

    assert f"note: no pod in {MEMORY[3]} runs on node `worker-9`" in result.stderr


def test_names_cannot_move_the_cursor(tmp_path: Path) -> None:
    def rename(document: dict[str, Any]) -> None:
        document["items"][0]["metadata"]["name"] = "red\x1b[31m\nalert"

    hostile = edited("memory/pods.json", tmp_path, rename)
    result = run("rank", *MEMORY[:2], "--pods", hostile)

    assert "\x1b" not in result.stdout
    assert r"batch/red\x1b[31m\nalert" in result.stdout


def test_a_request_of_ten_thousand_digits_is_ranked(tmp_path: Path) -> None:
    def inflate(document: dict[str, Any]) -> None:
        document["items"][0]["spec"]["containers"][0]["resources"]["requests"]["memory"] = "9" * 10_000

    path = edited("memory/pods.json", tmp_path, inflate)
    (report,) = (
        each for each in answer("rank", *MEMORY[:2], "--pods", path)["candidates"] if each["namespace"] == "batch"
    )

    assert report["exceedsRequest"] is False
    assert report["request"] == {"text": f"{'9' * 40}… (10000 characters)", "value": None}
    assert "over 1024Ei below its request" in run("rank", *MEMORY[:2], "--pods", path).stdout


@pytest.mark.parametrize(
    ("summary", "pods", "message"),
    [
        ("-", "-", "error: --summary and --pods are both `-`: only one can be read from standard input"),
        ("/nowhere", MEMORY[3], "error: cannot read `/nowhere`: no such file or directory"),
        (MEMORY[1], str(EXAMPLES), f"error: cannot read `{EXAMPLES}`: is a directory"),
        (
            KUBELET,
            MEMORY[3],
            f"error: {KUBELET}: JSON is malformed: invalid character (byte 0); expected what",
        ),
        (MEMORY[3], MEMORY[3], f"error: {MEMORY[3]}: holds no statistics of a node; expected what `kubectl get --raw"),
        (MEMORY[1], MEMORY[1], f"error: {MEMORY[1]}: holds a pod without a name; expected what `kubectl get pods"),
    ],
)
def test_files_that_are_not_what_they_should_be(summary: str, pods: str, message: str) -> None:
    result = run("rank", "--summary", summary, "--pods", pods)

    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(message)


def test_everything_of_a_namespace_is_not_a_list_of_pods(tmp_path: Path) -> None:
    """`kubectl get all` has services, which would look like pods that are just starting."""

    def add(document: dict[str, Any]) -> None:
        document["items"].append({"kind": "Service", "metadata": {"name": "web", "namespace": "shop"}})

    path = edited("memory/pods.json", tmp_path, add)
    assert (
        f"error: {path}: the list holds a `Service`, expected only pods"
        in run("rank", *MEMORY[:2], "--pods", path).stderr
    )


def test_two_pods_with_one_uid_are_refused(tmp_path: Path) -> None:
    def clone(document: dict[str, Any]) -> None:
        document["items"][4]["metadata"]["uid"] = document["items"][0]["metadata"]["uid"]

    path = edited("memory/pods.json", tmp_path, clone)
    result = run("rank", *MEMORY[:2], "--pods", path)

    assert result.exit_code == 2
    assert (
        "pods `batch/report-29283-hk4tq` and `monitoring/node-exporter-4wq8z` have the same uid `0b2a0d8b"
        in result.stderr
    )


@pytest.mark.parametrize("hostile", [b"", b"[" * 100_000, b"\xff", b'{"node": {"memory": {"availableBytes": 1e400}}}'])
def test_hostile_summaries_end_in_a_sentence(hostile: bytes) -> None:
    result = run("rank", "--summary", "-", *MEMORY[2:], stdin=hostile)

    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1].startswith("error: standard input: ")


def test_the_json_is_documented() -> None:
    """Every key that is printed stands in the documentation."""
    text = (EXAMPLES.parent / "commands.md").read_text()
    document = answer("rank", *DISK)

    for key in {*document, *document["candidates"][0], *document["reading"], "text", "value"}:
        assert f"`{key}`" in text or f'"{key}"' in text, key
