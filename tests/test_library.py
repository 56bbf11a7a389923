"""What a program can import: few names, typed, from three packages; and the programs of docs/library.md run."""

from __future__ import annotations

import inspect
import json
import re
import shutil
import subprocess
import sys
import zipfile
from importlib import import_module
from pathlib import Path

import pytest

from jettison import engine, manifests

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "docs" / "examples"
PACKAGES = ("jettison.engine", "jettison.manifests", "jettison.node")
# Each program, and what it prints where that is written down.
PROGRAMS = re.findall(
    r"```python\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", (ROOT / "docs" / "library.md").read_text(), re.DOTALL
)


def played(program: str, directory: Path) -> str:
    """What the program prints, as a process of its own in that directory."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=90, check=False, cwd=directory
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_there_are_three_programs() -> None:
    assert len(PROGRAMS) == 3


def test_a_program_decides_on_files() -> None:
    program, printed = PROGRAMS[0]
    assert printed
    assert played(program, EXAMPLES) == printed


def test_a_program_runs_a_node(tmp_path: Path) -> None:
    """Its pod is started, shown and gone at the end."""
    (tmp_path / "pods").mkdir()
    container = {"name": "main", "command": ["sleep", "600"]}
    pod = {"metadata": {"name": "web"}, "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]}}
    (tmp_path / "pods" / "web.json").write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", **pod}))
    printed = played(PROGRAMS[1][0], tmp_path)
    assert printed.startswith("node lab is ready\n")
    assert re.search(r"^default/web: (Pending|Running)$", printed, re.MULTILINE)
    assert list((tmp_path / "state" / "node" / "lab" / "pods").glob("*.json")) == []


def test_a_program_serves_an_api(tmp_path: Path) -> None:
    program, printed = PROGRAMS[2]
    assert played(program, tmp_path) == printed == "Pending\n"


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_exports_what_it_says(package: str) -> None:
    """Functions and classes, never a module; each under its own name, and nothing else."""
    module = import_module(package)
    for name in module.__all__:
        found = getattr(module, name)
        assert inspect.isclass(found) or inspect.isfunction(found), name
        assert found.__name__ == name
    assert sorted(module.__all__) == sorted(module._MODULES)
    with pytest.raises(AttributeError, match="has no attribute `nonsense`"):
        _ = module.nonsense


DECIDE = """
import jettison.engine.node.decide
from jettison.engine import decide
print(callable(decide))
"""


def test_decide_is_the_function_whatever_was_imported_before(tmp_path: Path) -> None:
    assert played(DECIDE, tmp_path) == "True\n"


def test_a_type_checker_knows_the_public_names() -> None:
    """Here mypy does: were a name not exported with its type, `make check` would find the ignored line needless."""
    policy: engine.Policy = manifests.read_policy(EXAMPLES / "memory/kubelet.yaml")
    snapshot = manifests.read_snapshot(EXAMPLES / "memory/summary.json", EXAMPLES / "memory/pods.json")
    outcome: engine.Outcome = engine.decide(policy, engine.History(), snapshot)
    assert isinstance(outcome.decision, engine.Evict)
    with pytest.raises(AttributeError):
        engine.nonsense  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_is_no_victim(phase: str, tmp_path: Path) -> None:
    """A list of pods from kubectl has them, too: not measured any longer, they would go first of all."""
    policy = manifests.read_policy(EXAMPLES / "memory/kubelet.yaml")
    listed = json.loads((EXAMPLES / "memory/pods.json").read_text())
    victims = []
    for _ in range(2):
        file = tmp_path / "pods.json"
        file.write_text(json.dumps(listed))
        snapshot = manifests.read_snapshot(EXAMPLES / "memory/summary.json", file)
        decision = engine.decide(policy, engine.History(), snapshot).decision
        assert isinstance(decision, engine.Evict)
        victims.append(decision.evictions[0].pod.name)
        for each in listed["items"]:
            if each["metadata"]["name"] == victims[0]:
                each["status"]["phase"] = phase
    assert victims[0] != victims[1]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, as a user would have it."""
    directory = tmp_path_factory.mktemp("wheel")
    source = directory / "source"
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory)]
    subprocess.run(command, cwd=source, check=True, capture_output=True, timeout=90)
    (wheel,) = directory.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(directory / "site")
    return directory / "site"


def test_the_wheel_says_that_it_is_typed(installed: Path) -> None:
    assert (installed / "jettison" / "py.typed").exists()
