"""`pip install .` brings no server and no client: help works all the same, and what lacks a package says which."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from jettison.cli.extras import EXTRAS
from jettison.cli.program import COMMANDS

ROOT = Path(__file__).parents[2]
PACKAGES = [name for names in EXTRAS.values() for name in names]

# One process for all calls: each import happens as in a process of its own, because failed imports are not remembered.
CALLER = """
import contextlib, io, json, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {packages!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
from jettison.cli.program import program

answers = []
for arguments in json.load(sys.stdin):
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            program.main(arguments, obj=lambda orders: None)
        except SystemExit as end:
            code = end.code
    answers.append((code, said.getvalue()))
json.dump(answers, sys.stdout)
"""


def call(*commands: list[str]) -> list[tuple[int, str]]:
    """Exit code and all output of each, in a base installation."""
    program = CALLER.format(packages=set(PACKAGES))
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=False,
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return [(code, said) for code, said in json.loads(done.stdout)]


def test_help_needs_no_extra() -> None:
    """Of every command, and of every command of a command."""
    words = [*([each] for each in COMMANDS), ["config", "check"], ["config", "show"]]
    for word, (code, said) in zip(words, call(*([*word, "--help"] for word in words)), strict=True):
        assert code == 0, (word, said)
        assert said.startswith("Usage:"), (word, said)


@pytest.mark.parametrize("extra", ["kube", "server"])
def test_the_table_is_that_of_the_package(extra: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = [each.partition(">")[0] for each in project["optional-dependencies"][extra]]
    assert sorted(listed) == sorted(EXTRAS[extra])


def test_a_command_says_which_extra_it_lacks(tmp_path: Path) -> None:
    """In one line with what to type, and no traceback."""
    state, api = ["--state-dir", str(tmp_path)], ["-s", "http://127.0.0.1:1"]
    needs = {
        "kube": [
            ["drain", "n1", *api],
            ["cordon", "n1", *api],
            ["uncordon", "n1", *api],
            ["evict", "p", *api],
            ["controllers", *api],
            ["node", *state],
        ],
        "server,kube": [["serve", *state], ["up", "--nodes", "2", *state]],
    }
    for extra, commands in needs.items():
        for arguments, (code, said) in zip(commands, call(*commands), strict=True):
            assert code == 1, (arguments, said)
            assert said.splitlines()[-1].endswith(f"pip install 'jettison[{extra}]'"), (arguments, said)
            assert "Traceback" not in said
            assert said.count("httptools") == 1, said


def test_what_needs_no_extra_works() -> None:
    """A plain call of the rest."""
    for code, said in call(["config", "show"], ["config", "check"], ["doctor", "-o", "json"]):
        assert code in (0, 1), said
        assert "Traceback" not in said
