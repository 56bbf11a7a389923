"""`jettison config check`: every error, every warning, each with its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result

from tests.cli.running import KUBELET, MEMORY, process, run

HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
SIZES = ("--capacity-memory", "8Gi", "--capacity-disk", "100Gi", "--capacity-pids", "32768")

WRONG = f"""{HEAD}evictionHard:
  memory.available: 100MB
  nodefs.available: 110%
  nodefs.inodefree: 5%
  imagefs.available: 15
  pid.available: 7
evictionSoft:
  memory.available: 500Mi
  nodefs.available: 12%
evictionSoftGracePeriod:
  memory.available: 90
evictionMaxPodGracePeriod: "60"
evictionPressureTransitionPeriod: 5 minutes
imageGCHighThresholdPercent: "90"
imageGCLowThresholdPercent: 88
systemReserved:
  memory: -1Gi
  gpu: "1"
enforceNodeAllocatable: [pods, everything]
EvictionMinimumReclaim:
  memory.available: 1Gi
"""


def check(text: str, tmp_path: Path, *arguments: str) -> Result:
    """The verdict on a file called k.yaml."""
    path = tmp_path / "k.yaml"
    path.write_text(text)
    return run("config", "check", str(path), *(arguments or SIZES))


def findings(result: Result, kind: str) -> list[str]:
    """Each line of that kind from its line number on."""
    return [line.partition("k.yaml:")[2] for line in result.stdout.splitlines() if line.startswith(f"{kind}: ")]


def test_a_good_file_has_nothing_wrong() -> None:
    result = run("config", "check", KUBELET, *MEMORY[:2])

    assert (result.exit_code, result.stdout, result.stderr) == (0, "no errors, no warnings\n", "")


def test_every_error_is_found_in_one_go(tmp_path: Path) -> None:
    """Those of the types, of the validation, of the maps and of the reservations; a kubelet stops at the first."""
    result = check(WRONG, tmp_path)

    assert result.exit_code == 2
    assert [line[:58] for line in findings(result, "error")] == [
        "4: evictionHard.memory.available is `100MB`: write 100M or",
        "5: evictionHard.nodefs.available is `110%`: eviction perce",
        "6: evictionHard.nodefs.inodefree is `5%`: unsupported evic",
        "7: evictionHard.imagefs.available is `15`, expected a stri",
        "8: evictionHard.pid.available is `7`, expected a string: p",
        "12: evictionSoftGracePeriod.nodefs.available: grace period",
        "13: evictionSoftGracePeriod.memory.available is `90`, expe",
        "14: evictionMaxPodGracePeriod is `'60'`, expected a whole ",
        "15: evictionPressureTransitionPeriod is `5 minutes`: time:",
        "16: imageGCHighThresholdPercent is `'90'`, expected a whol",
        "19: systemReserved.memory is `-1Gi`: resource quantity for",
        '20: systemReserved.gpu is `1`: cannot reserve "gpu" resour',
        "21: enforceNodeAllocatable: invalid configuration: option ",
    ]
    assert result.stdout.splitlines()[-2].endswith("did you mean `evictionMinimumReclaim`?")
    assert result.stdout.splitlines()[-1] == "13 errors, 1 warning"


def test_errors_as_data(tmp_path: Path) -> None:
    result = check(f"{HEAD}evictionHard:\n  memory.available: 1GB\n", tmp_path, *SIZES, "-o", "json")
    document = json.loads(result.stdout)

    assert result.exit_code == 2
    assert document["kind"] == "Findings"
    (error,) = document["errors"]
    assert error["message"].startswith("write 1")
    del error["message"]
    assert error == {
        "source": str(tmp_path / "k.yaml"),
        "line": 4,
        "key": "evictionHard.memory.available",
        "value": "1GB",
        "rule": "invalid-setting",
        "fix": None,
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: b\n\tc: d\n", "2: found a tab character that violates indentation"),
        ('{\n"kind": "x",,\n}', "2: "),
        ("", " the document is empty, expected a KubeletConfiguration object"),
        ("[]", " the document is a list, expected a KubeletConfiguration object"),
        ("kind: Pod\napiVersion: v1\n", "2: apiVersion is `'v1'`, expected `kubelet.config.k8s.io/v1beta1`\n1 error,"),
        (f"{HEAD}evictionHard: [1, 2]\n", "3: evictionHard is `[1, 2]`, expected a map"),
    ],
)
def test_what_is_no_configuration_is_told(text: str, message: str, tmp_path: Path) -> None:
    result = check(text, tmp_path)

    assert result.exit_code == 2
    assert result.stdout.partition("k.yaml:")[2].startswith(message)


def test_every_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "1.conf").write_text("a: [")
    (tmp_path / "2.conf").write_text("b: ]")

    result = run("config", "check", "/nowhere", "--config-dir", str(tmp_path))

    assert result.exit_code == 2
    assert [line[: line.rfind(": ")] for line in result.stdout.splitlines()[:-1]] == [
        "error: cannot read `/nowhere`",
        f"error: {tmp_path}/1.conf:2",
        f"error: {tmp_path}/2.conf:1",
    ]


def test_a_drop_in_is_blamed_for_what_it_says(tmp_path: Path) -> None:
    directory = tmp_path / "d"
    directory.mkdir()
    (directory / "10.conf").write_text(f"{HEAD}\nmaxPods: -1\nevictionHard:\n  nodefs.available: ten\n")

    result = check(HEAD, tmp_path, "--config-dir", str(directory))

    first, second = result.stdout.splitlines()[:2]
    assert first.startswith(
        f"error: {directory}/10.conf:4: maxPods is `-1`: invalid configuration: maxPods (--max-pods)"
    )
    assert second.startswith(f"error: {directory}/10.conf:6: evictionHard.nodefs.available is `ten`: ")


def test_a_null_in_a_drop_in_is_not_to_blame(tmp_path: Path) -> None:
    (tmp_path / "1.conf").write_text(f"{HEAD}evictionHard:\n  nodefs.available: null\n  pid.available: 7\n")

    result = run("config", "check", KUBELET, "--config-dir", str(tmp_path))

    assert result.stdout == (
        f"error: {tmp_path}/1.conf:5: evictionHard.pid.available is `7`, expected a string: put it in quotes\n"
        "1 error, no warnings\n"
    )


def test_flags_are_blamed_for_what_they_say() -> None:
    result = run(
        "config",
        "check",
        "--eviction-soft=memory.available<1GB",
        "--eviction-soft-grace-period=memory.available=1m",
        "--max-pods=x",
        "--image-gc-high-threshold=101",
    )

    assert result.exit_code == 2
    assert [line[:90] for line in result.stdout.splitlines()[:3]] == [
        'error: invalid argument "x" for "--max-pods" flag: strconv.ParseInt: parsing "x": invalid ',
        "error: --image-gc-high-threshold: imageGCHighThresholdPercent is `101`: invalid configurat",
        "error: --eviction-soft: evictionSoft.memory.available is `1GB`: write 1G or 1Gi",
    ]


def test_a_missing_grace_period_is_blamed_on_the_threshold_that_needs_it(tmp_path: Path) -> None:
    result = check(f"{HEAD}evictionSoft:\n  memory.available: 1Gi\n", tmp_path)

    (found,) = findings(result, "error")

    assert found.startswith("4: evictionSoft.memory.available is `1Gi`: grace period must be specified for the soft")


def test_more_reserved_than_there_is(tmp_path: Path) -> None:
    text = f"{HEAD}systemReserved: {{memory: 4000Ei}}\n"
    result = check(text, tmp_path)

    assert result.exit_code == 2
    assert 'error: a kubelet would not start: invalid Node Allocatable configuration. Resource "' in result.stdout
    here = run("config", "check", str(tmp_path / "k.yaml"))
    assert here.exit_code == 0
    assert "warning: on a machine like this one a kubelet would not start: invalid Node Allocatable" in here.stdout


def test_a_thousand_mistakes_do_not_take_long(tmp_path: Path) -> None:
    entries = "".join(f"  signal{number}: {number}\n" for number in range(1000))
    result = check(f"{HEAD}evictionHard:\n{entries}", tmp_path)

    assert result.exit_code == 2
    assert len(findings(result, "error")) >= 50


def test_as_a_process_it_exits_with_2(tmp_path: Path) -> None:
    path = tmp_path / "k.yaml"
    path.write_text(WRONG)

    assert process("config", "check", str(path)).returncode == 2
    assert process("config", "check", KUBELET).returncode == 0
