"""What a kubelet accepts without a word."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import run

HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
DEFAULTS = """evictionHard:
  memory.available: 100Mi
  nodefs.available: 10%
  nodefs.inodesFree: 5%
  imagefs.available: 15%
  imagefs.inodesFree: 5%
"""
SIZES = ("--capacity-memory", "8Gi", "--capacity-disk", "100Gi", "--capacity-inodes", "1M", "--capacity-pids", "32768")


def warnings(text: str, tmp_path: Path, *arguments: str) -> list[str]:
    """From the line number on; a file with warnings alone is fine."""
    path = tmp_path / "k.yaml"
    path.write_text(HEAD + text)
    result = run("config", "check", str(path), *SIZES, *arguments)
    assert result.exit_code == 0, result.stdout
    lines = [line for line in result.stdout.splitlines() if line.startswith("warning: ")]
    return [line.removeprefix("warning: ").removeprefix(f"{path}:") for line in lines]


SOFT = "evictionSoft: {{memory.available: {}}}\nevictionSoftGracePeriod: {{memory.available: {}}}\n"
SOFT_GRACE = "evictionMaxPodGracePeriod: 30\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (DEFAULTS, []),
        ("", []),
        ("evictionHard: {}\n", ["3: evictionHard: an empty map: there are no hard thresholds at all"]),
        (
            "evictionHard: {memory.available: 1Gi}\n",
            ["3: evictionHard: has no threshold for nodefs.available, nodefs.inodesFree, imagefs.available, im"],
        ),
        ("mergeDefaultEvictionSettings: true\nevictionHard: {memory.available: 1Gi}\n", []),
        (SOFT.format("500Mi", "1m") + SOFT_GRACE, []),
        (
            SOFT.format("50Mi", "1m") + SOFT_GRACE,
            ["3: evictionSoft.memory.available is not above the hard threshold of 100Mi, which is met first"],
        ),
        (
            SOFT.format("1%", "1m") + SOFT_GRACE,
            ["3: evictionSoft.memory.available is not above the hard threshold of 100Mi, which is met first"],
        ),
        (
            SOFT.format("500Mi", "5s") + SOFT_GRACE,
            ["4: evictionSoftGracePeriod.memory.available is `5s`: shorter than the 10s between two looks"],
        ),
        (
            SOFT.format("500Mi", "0s") + SOFT_GRACE,
            ["4: evictionSoftGracePeriod.memory.available is `0s`: a grace period of 0 makes this a hard threshold"],
        ),
        (
            SOFT.format("500Mi", "1m"),
            ["evictionMaxPodGracePeriod: soft evictions give pods 1s to end, as hard ones do"],
        ),
        (
            "evictionMaxPodGracePeriod: -1\n",
            ["3: evictionMaxPodGracePeriod is `-1`: a negative value does not mean the pod's own period: pods get 1s"],
        ),
        (
            "evictionMinimumReclaim: {nodefs.available: 95%}\n",
            ["3: evictionMinimumReclaim.nodefs.available is `95%`: threshold and minimum reclaim make 105.0Gi of the"],
        ),
        (
            DEFAULTS + "  containerfs.available: 3%\n",
            ["9: evictionHard.containerfs.available is replaced by the threshold of the filesystem that holds"],
        ),
        (DEFAULTS + "  pid.available: NaN%\n", ["9: evictionHard.pid.available is `NaN%`: can never be met"]),
        (
            'evictionMinimumReclaim: {pid.available: "10"}\n',
            ["3: evictionMinimumReclaim.pid.available is `10`: has no effect: there is no threshold for this signal"],
        ),
        (
            "evictionSoftGracePeriod: {pid.available: 1m}\n",
            ["3: evictionSoftGracePeriod.pid.available is `1m`: has no effect: evictionSoft has no such signal"],
        ),
        (
            "imageGCHighThresholdPercent: 90\n",
            ["evictionHard.imagefs.available is met before image collection starts at 10% free"],
        ),
        ("maxPods: 1\nmaxPods: 2\n", ["4: `maxPods` is set again, only its last value counts"]),
    ],
)
def test_what_is_odd_is_told(text: str, expected: list[str], tmp_path: Path) -> None:
    found = warnings(text, tmp_path)

    assert [line[: len(start)] for line, start in zip(found, expected, strict=True)] == expected


def errors(text: str, tmp_path: Path, *arguments: str) -> list[str]:
    """What a node of that size could never run with."""
    path = tmp_path / "k.yaml"
    path.write_text(HEAD + text)
    result = run("config", "check", str(path), *SIZES, *arguments)
    assert result.exit_code == 2, result.stdout
    return [line.removeprefix("error: ") for line in result.stdout.splitlines() if line.startswith("error: ")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            DEFAULTS.replace("100Mi", "8Gi"),
            ["evictionHard.memory.available is not below the node's 8Gi (8Gi - 8Gi = 0): it is always met"],
        ),
        (
            DEFAULTS.replace("100Mi", "9Gi"),
            ["has a reservation of 9Gi but capacity of 8Gi.", "(8Gi - 9Gi = -1Gi): it is always met"],
        ),
        (
            SOFT.format("8Gi", "1m") + SOFT_GRACE,
            ["evictionSoft.memory.available is not below the node's 8Gi (8Gi - 8Gi = 0): it is always met"],
        ),
        (
            DEFAULTS + '  pid.available: "32768"\n',
            ["evictionHard.pid.available is not below the node's 32768 (32768 - 32768 = 0): it is always met"],
        ),
        (
            "systemReserved: {memory: 8092Mi}\n",
            [
                "before the first of them has started: 8Gi of memory - 7.9Gi reserved - 100Mi kept free",
            ],
        ),
        (
            "systemReserved: {memory: 7930Mi}\n",
            ["pods may use 162Mi of 8Gi, less than 2%, which is taken for a mistake: 8Gi of memory - 7.7Gi reserved"],
        ),
        (
            "systemReserved: {memory: 4Gi}\nkubeReserved: {memory: 4Gi}\n",
            ["8Gi of memory - 8Gi reserved - 100Mi kept free by memory.available = -100Mi for pods, which"],
        ),
    ],
)
def test_pressure_that_is_never_left_is_refused_with_the_arithmetic(
    text: str, expected: list[str], tmp_path: Path
) -> None:
    for said, part in zip(errors(text, tmp_path), expected, strict=True):
        assert part in said


@pytest.mark.parametrize("key", ["systemReserved", "kubeReserved"])
def test_what_is_reserved_moves_the_point_at_which_pods_go(key: str, tmp_path: Path) -> None:
    """20Gi for the system of 24Gi and a threshold of 2Gi are not 22Gi for pods, but 2Gi."""
    text = f"{key}: {{memory: 20Gi}}\n{DEFAULTS.replace('100Mi', '2Gi')}"

    (found,) = warnings(text, tmp_path, "--capacity-memory", "24Gi")

    assert found.startswith(f"3: {key}: pods may use 2Gi of 24Gi; they go while the node has 22Gi free")
    assert found.endswith("24Gi of memory - 20Gi reserved - 2Gi kept free by memory.available = 2Gi for pods")
    # Nothing guards the pods' own memory: there is no such trap.
    assert warnings(f"{text}enforceNodeAllocatable: [none]\n", tmp_path, "--capacity-memory", "24Gi") == []


def test_a_small_reservation_is_not_worth_a_word(tmp_path: Path) -> None:
    assert warnings("systemReserved: {memory: 1Gi}\n", tmp_path) == []


@pytest.mark.parametrize("command", [("up",), ("up", "--nodes", "2"), ("node",)])
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("--node-memory", "80Mi"),
            "80Mi of memory - 0 reserved - 100Mi kept free by memory.available = -20Mi",
        ),
        (("--node-memory", "512Mi", "--eviction-hard", "memory.available<512Mi"), "(512Mi - 512Mi = 0): it is always"),
        (
            ("--node-memory", "512Mi", "--system-reserved", "memory=480Mi"),
            "a kubelet would not start: invalid Node",
        ),
        (("--node-memory", "999Ti"), "this machine has"),
    ],
)
def test_no_node_begins_with_what_config_check_calls_an_error(
    command: tuple[str, ...], arguments: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    result = run(*command, *arguments, "--state-dir", str(tmp_path))

    assert result.exit_code == 2
    assert said in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_transition_period_of_0_hides_conditions_by_flag_only(tmp_path: Path) -> None:
    assert warnings("evictionPressureTransitionPeriod: 0s\n", tmp_path) == []

    (found,) = warnings("", tmp_path, "--eviction-pressure-transition-period=0s")

    assert found.startswith("--eviction-pressure-transition-period: evictionPressureTransitionPeriod is `0s`: no node ")


def test_merging_defaults_has_no_effect_in_a_drop_in(tmp_path: Path) -> None:
    directory = tmp_path / "d"
    directory.mkdir()
    (directory / "1.conf").write_text(HEAD + "mergeDefaultEvictionSettings: true\n")

    (found,) = warnings("", tmp_path, "--config-dir", str(directory))

    assert found.startswith(f"{directory}/1.conf:3: mergeDefaultEvictionSettings is `true`: has no effect in a drop-in")


def test_without_a_file_there_are_no_hard_thresholds() -> None:
    result = run("config", "check", *SIZES)

    assert result.exit_code == 0
    assert result.stdout.startswith("warning: no hard thresholds: without a configuration file Kubernetes sets none")
