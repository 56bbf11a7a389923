"""Manifests, checked without an agent."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from jettison.node.card import NodeCard, write_card
from tests.cli.running import run

GOOD = "kind: Pod\nmetadata: {name: good}\nspec: {containers: [{name: c, command: [sleep, '9']}]}\n"
WRONG = {
    "bytes.yaml": (b"kind: Pod\nmetadata: \xff\n", ":2: not UTF-8 at byte 20"),
    "open.yaml": (b"kind: [", ":2: did not find expected node content"),
    "deep.json": (b"[" * 100_000, ":1: nested more than 32 levels deep"),
    "kind.yaml": (b"kind: Deployment", ": kind is `Deployment`, expected one of Pod, PriorityClass, ConfigMap, Secret"),
    "twice.yaml": (GOOD.encode(), ": pod `default/good` is there twice, the second is left out"),
    "keys.yaml": (b"kind: Pod\nkind: Pod\n", ":2: key `kind` is there already, in line 1"),
    "typo.yaml": (
        GOOD.replace("command", "comand").replace("good", "typo").encode(),
        ': Pod `typo`: unknown field "spec.containers[0].comand", did you mean `command`?',
    ),
    "class.yaml": (
        GOOD.replace("{containers", "{priorityClassName: gold, containers").replace("good", "rich").encode(),
        ": pod `rich`: no PriorityClass `gold`",
    ),
    "image.yaml": (
        b"{kind: Pod, metadata: {name: web}, spec: {containers: [{name: c, image: nginx}]}}",
        ": pod `default/web`: container `c`: no command",
    ),
    "amount.yaml": (
        GOOD.replace("name: c,", "name: c, resources: {limits: {memory: 512MB}},").replace("good", "big").encode(),
        ": pod `default/big`: memory `512MB`: write 512M or 512Mi",
    ),
}


@pytest.fixture
def pods(tmp_path: Path) -> Path:
    directory = tmp_path / "pods"
    directory.mkdir()
    (directory / "a.yaml").write_text(GOOD)
    (directory / "README.md").write_text("not a manifest")
    return directory


def test_good_manifests_are_fine(pods: Path) -> None:
    result = run("check", str(pods))

    assert (result.exit_code, result.stdout) == (0, "1 file, 1 pod, no errors\n")


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named_with_its_file(pods: Path, name: str) -> None:
    data, said = WRONG[name]
    (pods / name).write_bytes(data)

    result = run("check", str(pods))

    assert result.exit_code == 2
    assert f"error: {pods / name}{said}" in result.stdout
    assert result.stdout.endswith("1 error\n")


def test_everything_at_once_as_data(pods: Path) -> None:
    for name, (data, _) in WRONG.items():
        (pods / name).write_bytes(data)
    os.mkfifo(pods / "pipe.yaml")
    with (pods / "huge.yaml").open("wb") as file:
        file.truncate(2**40)

    result = run("check", str(pods), "-o", "json")

    assert result.exit_code == 2
    found = json.loads(result.stdout)
    assert found["kind"] == "ManifestFindings"
    assert len(found["files"]) == len(WRONG) + 3
    assert len(found["errors"]) == len(WRONG) + 2


def test_a_file_is_checked_alone_and_with_the_class_that_it_needs(pods: Path, tmp_path: Path) -> None:
    rich = tmp_path / "rich"
    rich.write_bytes(WRONG["class.yaml"][0])
    classes = tmp_path / "classes.yaml"
    classes.write_text("{kind: PriorityClass, metadata: {name: gold}, value: 5}")

    assert run("check", str(rich)).exit_code == 2
    assert run("check", str(rich), str(classes), str(pods)).exit_code == 0


def test_what_is_not_there_and_what_is_empty(tmp_path: Path) -> None:
    gone = run("check", str(tmp_path / "gone"))
    empty = run("check", str(tmp_path))

    assert gone.exit_code == 2
    assert gone.stderr.startswith("error: cannot read `")
    assert empty.exit_code == 0
    assert empty.stderr.startswith("warning: no manifest in ")


@pytest.mark.parametrize("is_told", [True, False], ids=["told", "by the node's agent"])
def test_doctor_does_not_call_a_node_well_whose_manifests_are_not(pods: Path, tmp_path: Path, is_told: bool) -> None:
    state = tmp_path / "state" / "node" / "n1"
    state.mkdir(parents=True)
    write_card(state, NodeCard("files", 1, 0, manifests=() if is_told else (str(pods),)))
    arguments = ["doctor", "--state-dir", str(tmp_path / "state"), "-o", "json"]
    arguments += ["--manifests", str(pods)] if is_told else []

    def state_of_manifests() -> tuple[str, str]:
        result = run(*arguments)
        (check,) = (each for each in json.loads(result.stdout)["checks"] if each["name"] == "manifests")
        return check["state"], check["finding"]

    assert state_of_manifests() == ("ok", f"`{pods}`: 1 file, 1 pod, no errors")
    for name in ("bytes.yaml", "open.yaml", "deep.json", "keys.yaml"):
        (pods / name).write_bytes(WRONG[name][0])
    state_now, finding = state_of_manifests()
    assert state_now == "degraded"
    assert finding.startswith(f"`{pods}`: 5 files, 1 pod, 4 errors: {pods}/bytes.yaml:2: not UTF-8")
    assert run(*arguments).exit_code == 1
