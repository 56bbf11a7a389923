"""`jettison config show`: what is in force, in amounts, and which file or flag said so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.running import DISK, EXAMPLES, KUBELET, MEMORY, answer, run

HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
SIZES = ("--capacity-memory", "16Gi", "--capacity-disk", "100Gi")


def threshold(document: dict[str, Any], signal: str, *, hard: bool = True) -> dict[str, Any]:
    (found,) = (each for each in document["thresholds"] if each["signal"] == signal and each["hard"] is hard)
    assert isinstance(found, dict)
    return found


def test_thresholds_are_resolved_for_a_summary() -> None:
    document = answer("config", "show", KUBELET, *MEMORY[:2])

    assert document["capacitiesFrom"] == MEMORY[1]
    assert threshold(document, "nodefs.available") == {
        "signal": "nodefs.available",
        "hard": True,
        "amount": "10%",
        "gracePeriod": "0s",
        "minimumReclaim": "1Gi",
        "derivedFrom": None,
        "from": f"{KUBELET}:5",
        "gracePeriodFrom": None,
        "minimumReclaimFrom": f"{KUBELET}:15",
        "capacity": {"text": "100Gi", "value": 107374182400},
        "threshold": {"text": "10737418400", "value": 10737418400},
        "target": {"text": "11811160224", "value": 11811160224},
    }
    soft = threshold(document, "memory.available", hard=False)
    assert (soft["gracePeriod"], soft["gracePeriodFrom"]) == ("1m30s", f"{KUBELET}:12")


def test_derived_thresholds_are_marked() -> None:
    document = answer("config", "show", KUBELET, *SIZES)
    copied = threshold(document, "allocatableMemory.available")

    assert (copied["derivedFrom"], copied["from"]) == ("memory.available", f"{KUBELET}:4")
    assert copied["capacity"] == {"text": "15872Mi", "value": 16642998272}, "16Gi less the two reservations"
    assert threshold(document, "containerfs.available")["derivedFrom"] == "nodefs.available"
    assert f"derived from memory.available, {KUBELET}:4" in run("config", "show", KUBELET, *SIZES).stdout


@pytest.mark.parametrize(("image_fs", "source"), [("shared", "nodefs"), ("dedicated", "imagefs"), ("split", "nodefs")])
def test_writable_layers_follow_the_layout(image_fs: str, source: str) -> None:
    document = answer("config", "show", KUBELET, *SIZES, "--image-fs", image_fs)

    assert threshold(document, "containerfs.available")["derivedFrom"] == f"{source}.available"
    assert threshold(document, "containerfs.inodesFree")["derivedFrom"] == f"{source}.inodesFree"


def test_an_image_filesystem_of_its_own_is_told_by_its_size() -> None:
    document = answer("config", "show", KUBELET, *SIZES, "--capacity-image-disk", "200Gi")

    assert document["imageFs"] == "dedicated"
    assert threshold(document, "imagefs.available")["capacity"]["text"] == "200Gi"
    assert threshold(document, "containerfs.available")["capacity"]["text"] == "200Gi"


def test_what_was_not_told_stays_open() -> None:
    document = answer("config", "show", KUBELET, "--capacity-memory", "16Gi")

    assert threshold(document, "nodefs.available")["threshold"] is None
    assert threshold(document, "memory.available")["target"]["text"] == "300Mi"


def test_an_option_goes_before_the_summary() -> None:
    document = answer("config", "show", KUBELET, *DISK[:2], "--capacity-disk", "1Ti")

    assert threshold(document, "nodefs.available")["capacity"]["text"] == "1Ti"
    assert threshold(document, "imagefs.available")["capacity"]["text"] == "200Gi"


def test_without_a_size_this_machine_is_measured() -> None:
    document = answer("config", "show", KUBELET)
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    total = int(lines["MemTotal"].split()[0]) * 1024

    assert document["capacitiesFrom"].startswith("measured on this machine, nodefs at /")
    assert threshold(document, "memory.available")["capacity"]["value"] == total
    assert threshold(document, "nodefs.available")["capacity"]["value"] > 0


def test_where_the_kubelet_never_ran_the_nearest_directory_above_counts(tmp_path: Path) -> None:
    document = answer("config", "show", KUBELET, "--root-dir", str(tmp_path / "not/there"))

    assert document["capacitiesFrom"] == f"measured on this machine, nodefs at {tmp_path}"


def test_every_source_is_named(tmp_path: Path) -> None:
    (tmp_path / "10.conf").write_text(HEAD + "evictionHard:\n  pid.available: 5%\n  imagefs.available: null\n")
    arguments = ("--config-dir", str(tmp_path), "--eviction-max-pod-grace-period=30", "--max-pods=20")

    document = answer("config", "show", KUBELET, *arguments, *SIZES)

    assert threshold(document, "pid.available")["from"] == f"{tmp_path}/10.conf:4"
    assert threshold(document, "memory.available")["from"] == f"{KUBELET}:4"
    assert "imagefs.available" not in [each["signal"] for each in document["thresholds"]]
    assert document["settings"]["evictionMaxPodGracePeriod"] == {"value": 30, "from": "--eviction-max-pod-grace-period"}
    assert document["settings"]["maxPods"] == {"value": 20, "from": "--max-pods"}
    assert document["settings"]["systemReserved"]["from"] == f"{KUBELET}:18"
    assert document["settings"]["oomScoreAdj"] == {"value": -999, "from": "default"}


def test_defaults_are_called_so(tmp_path: Path) -> None:
    path = tmp_path / "empty.yaml"
    path.write_text(HEAD)

    document = answer("config", "show", str(path), *SIZES)

    assert [(each["signal"], each["amount"]) for each in document["thresholds"] if each["from"] == "default"][:2] == [
        ("memory.available", "100Mi"),
        ("allocatableMemory.available", "100Mi"),
    ]


def test_a_soft_threshold_without_grace_is_hard_but_from_the_soft_map(tmp_path: Path) -> None:
    path = tmp_path / "k.yaml"
    path.write_text(
        HEAD + "evictionHard: {memory.available: 1Gi}\n"
        "evictionSoft:\n  memory.available: 2Gi\nevictionSoftGracePeriod:\n  memory.available: 0s\n"
    )

    found = [
        (each["signal"], each["amount"], each["from"].rpartition(":")[2])
        for each in answer("config", "show", str(path), *SIZES)["thresholds"]
    ]

    assert found[:4] == [
        ("memory.available", "1Gi", "3"),
        ("memory.available", "2Gi", "5"),
        ("allocatableMemory.available", "1Gi", "3"),
        ("allocatableMemory.available", "2Gi", "5"),
    ]


def test_without_a_file_there_is_nothing_and_that_is_said() -> None:
    result = run("config", "show", *SIZES)

    assert result.exit_code == 0
    assert "no thresholds are set" in result.stdout
    assert result.stderr.startswith("warning: no hard thresholds: without a configuration file Kubernetes sets none")


def test_text_has_a_row_for_each_threshold_and_setting() -> None:
    text = run("config", "show", KUBELET, *MEMORY[:2]).stdout

    assert text.startswith(f"capacities {MEMORY[1]}; images and writable layers on nodefs\n\nSIGNAL ")
    assert (
        "nodefs.available             hard  10%        10.0Gi (10737418400)  100Gi     -      1Gi      11.0Gi" in text
    )
    assert f"evictionMaxPodGracePeriod         60                     {KUBELET}:16" in text


def test_yaml_holds_what_json_holds() -> None:
    arguments = ("config", "show", KUBELET, *SIZES)
    assert yaml.safe_load(run(*arguments, "-o", "yaml").stdout) == answer(*arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--capacity-memory", "16GB"), "error: --capacity-memory: `16GB`: write 16G or 16Gi"),
        (("--capacity-disk", "0"), "error: --capacity-disk: `0` is not a positive number that fits into 64 bits"),
        (("--capacity-pids", "1000E"), "error: --capacity-pids: `1000E` is not a positive number that fits"),
        (("--summary", KUBELET), f"error: {KUBELET}: JSON is malformed"),
    ],
)
def test_sizes_that_make_no_sense(arguments: tuple[str, ...], message: str) -> None:
    result = run("config", "show", KUBELET, *arguments)

    assert result.exit_code == 2
    assert result.stderr.startswith(message)


def test_only_one_file_from_standard_input() -> None:
    result = run("config", "show", "-", "--summary", "-")

    assert result.exit_code == 2
    assert result.stderr == "error: FILE and --summary are both `-`: only one can be read from standard input\n"


def test_mistakes_are_errors_with_their_places(tmp_path: Path) -> None:
    path = tmp_path / "k.yaml"
    path.write_text(HEAD + "evictionHard:\n  memory.available: 1GB\nmaxPods: many\n")

    result = run("config", "show", str(path))

    assert (result.exit_code, result.stdout) == (2, "")
    first, second = result.stderr.splitlines()
    assert first.startswith(f"error: {path}:4: evictionHard.memory.available is `1GB`: write 1G or 1Gi")
    assert second.startswith(f"error: {path}:5: maxPods is `'many'`, expected a whole number from")


def test_the_json_is_documented() -> None:
    """Every key that is printed stands in the documentation."""
    text = (EXAMPLES.parent / "commands.md").read_text()
    document = answer("config", "show", KUBELET, *SIZES)

    for key in {*document, *document["thresholds"][0], *document["settings"]["maxPods"]}:
        assert f"`{key}`" in text, key
