"""Commands run as a user runs them, on the examples of the documentation."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from jettison.cli.program import program

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
MEMORY = ("--summary", str(EXAMPLES / "memory/summary.json"), "--pods", str(EXAMPLES / "memory/pods.json"))
IDLE = ("--summary", str(EXAMPLES / "memory/idle-summary.json"), "--pods", str(EXAMPLES / "memory/pods.json"))
DISK = ("--summary", str(EXAMPLES / "disk/summary.json"), "--pods", str(EXAMPLES / "disk/pods.json"))
KUBELET = str(EXAMPLES / "memory/kubelet.yaml")


def run(*arguments: str, stdin: str | bytes | None = None) -> Result:
    """In this process, through click's runner. An exception that was not turned into words fails the test."""
    result = CliRunner().invoke(program, arguments, input=stdin, prog_name="jettison")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def answer(*arguments: str) -> dict[str, Any]:
    """The JSON that a command prints; it must succeed."""
    result = run(*arguments, "-o", "json")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert isinstance(document, dict)
    return document


def process(*arguments: str, **settings: Any) -> subprocess.CompletedProcess[str]:
    """As a real process, which must not take longer than a person's patience."""
    command = [sys.executable, "-m", "jettison", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False, **settings)


def edited(path: str, tmp_path: Path, change: Any) -> str:
    """A copy of an example, changed by `change(document)`."""
    document = json.loads((EXAMPLES / path).read_text())
    change(document)
    copy = tmp_path / Path(path).name
    copy.write_text(json.dumps(document))
    return str(copy)
