"""Command lines that nobody in his right mind would type: each ends in an answer or in one line of error.

`JETTISON_FUZZ=5000 pytest tests/cli/test_hostile_commands.py` tries more of them; the seed is fixed, so a failure comes
back.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from jettison.agent.journal_files import MAGIC, frame
from jettison.cli.program import COMMANDS, program
from tests.hostile import FACT, VALID, encoded

SEED = 12
COUNT = int(os.environ.get("JETTISON_FUZZ", "200"))
PATIENCE = 20.0

# These would act for real, or only end when they are told to; what they read is read by others here.
LEFT_OUT = {"demo", "top", "serve", "controllers", "down"}
NUMBERS = ["9" * 30, "-" + "9" * 30, "-1", "0", "nan", "inf", "1e9", "٣٣", "1_0", "", " ", "0x10", "9" * 5000]
TEXTS = [
    "",
    "\x1b[2J",
    "a\nb",
    "\udcff",
    "x" * 5000,
    "../..",
    "/",
    "-",
    "--",
    "`'\"",
    "\U0001f600",
    "memory.available<1GB",
]
AMOUNTS = ["512MB", "-1Gi", "1e999999", "nan%", "100%%", "memory.available<" + "9" * 5000, "memory=1Gi,memory", "=,=<"]


def odd_files(directory: Path) -> list[str]:
    """Paths of everything that a file can be but should not."""
    contents = {
        "brackets": b"[" * 100_000,
        "braces": b'{"a":' * 100_000,
        "number": b"contexts: 1" + b"0" * 5000,
        "surrogate": b'{"apiVersion": "\\ud800", "kind": "\\udfff"}',
        "bytes": bytes(range(256)),
        "nul": b"a: \x00b",
        "aliases": b"a: &a [x, x]\n" + b"b: &b [*a, *a]\nc: &c [*b, *b]\n" * 40,
        "list": b"[1, 2, 3]",
        "empty": b"",
    }
    for name, data in contents.items():
        (directory / name).write_bytes(data)
    with (directory / "sparse").open("wb") as file:
        file.truncate(2**40)
    os.mkfifo(directory / "pipe")
    (directory / "loop").symlink_to("loop")
    (directory / "directory").mkdir()
    names = [*contents, "sparse", "pipe", "loop", "directory", "gone", "n" * 300]
    return [*(str(directory / name) for name in names), "/dev/zero", "/dev/null", "/proc/self/mem"]


def odd_state(directory: Path) -> Path:
    """A node whose files were all written by somebody else."""
    node = directory / "state" / "node" / "n1"
    (node / "pods").mkdir(parents=True)
    (node / "journal").mkdir()
    (node / "node.json").write_bytes(b'{"node_dir":' + b"[" * 5000)
    (node / "history.json").write_bytes(b"[" * 5000)
    (node / "pods" / "a.json").write_bytes(b'{"uid": "a", "document": ' + b'{"a":' * 900 + b"1" + b"}" * 901)
    (node / "pods" / "b.json").mkdir()
    records = [FACT, {**FACT, "values": []}, {**FACT, "time": 2**62}, {**FACT, "event": "\x1b", "values": {"pod": 7}}]
    records += [VALID["step"], {**VALID["step"], "looks": []}, {**VALID["step"], "policy": 5, "history": []}]
    data = [encoded(each) for each in records] + [b"[" * 5000, b"\xff", b'{"values": ' + b"[" * 900 + b"]" * 900 + b"}"]
    (node / "journal" / "0000000001.journal").write_bytes(MAGIC + b"".join(map(frame, data)) + b"torn")
    return directory / "state"


def leaves() -> Iterator[tuple[list[str], click.Command]]:
    context = click.Context(program)
    for name in COMMANDS:
        command = program.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            inner = click.Context(command, parent=context)
            for word in command.list_commands(inner):
                found = command.get_command(inner, word)
                assert found is not None
                yield [name, word], found
        elif name not in LEFT_OUT:
            yield [name], command


def line(chance: random.Random, words: list[str], command: click.Command, files: list[str], state: Path) -> list[str]:
    """One to four of the command's options with values that are wrong for most of them."""
    said = [*words]
    # Whoever follows waits, which is meant.
    options = [each for each in command.params if isinstance(each, click.Option) and each.name != "follow"]
    for option in chance.sample(options, min(len(options), chance.randint(1, 4))):
        name = max(option.opts, key=len)
        if option.is_flag:
            said.append(name)
        else:
            said.append(f"{name}={chance.choice(chance.choice((NUMBERS, TEXTS, AMOUNTS, files)))}")
    if any(each.name == "state_dir" for each in options) and chance.random() < 0.7:
        said += ["--state-dir", str(state)]
    for argument in command.params:
        if isinstance(argument, click.Argument) and chance.random() < 0.8:
            said.append(chance.choice((chance.choice(files), chance.choice(TEXTS), "web", "n1")))
    if not any(each.startswith(("--kubeconfig", "--server")) for each in said) and "kubeconfig" in {
        each.name for each in options
    }:
        said.append(f"--kubeconfig={chance.choice(files)}")
    return said


def end_of(arguments: list[str]) -> tuple[int | None, str]:
    """Exit code and what was said, of a child: a crash of the parser must not be one of the tests. None: it waits."""
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(readable)
            sys.stdin = io.TextIOWrapper(io.BytesIO(b""))
            os.dup2(writable, 1)
            os.dup2(writable, 2)
            sys.stdout = sys.stderr = open(writable, "w", errors="backslashreplace")  # noqa: PTH123, SIM115
            program.main(arguments, obj=lambda _: None)
        except SystemExit as end:
            sys.stdout.flush()
            os._exit(end.code if isinstance(end.code, int) else 1)
        except BaseException:  # noqa: BLE001  whatever it is, it is a failure
            traceback.print_exc()
            sys.stderr.flush()
        os._exit(99)
    os.close(writable)
    os.set_blocking(readable, False)
    said, code, deadline = b"", None, time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        with contextlib.suppress(BlockingIOError):
            said += os.read(readable, 65536)
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            code = os.waitstatus_to_exitcode(status)
            break
        time.sleep(0.002)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    with contextlib.suppress(BlockingIOError):
        said += os.read(readable, 10**6)
    os.close(readable)
    return code, said.decode(errors="replace")


@pytest.mark.timeout(600)
def test_no_command_line_ends_in_a_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor in a signal, nor in a wait."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    chance = random.Random(SEED)
    files, state, known = odd_files(tmp_path), odd_state(tmp_path), list(leaves())
    refused = 0
    for number in range(COUNT):
        words, command = known[number % len(known)]
        arguments = line(chance, words, command, files, state)
        code, said = end_of(arguments)
        assert code in (0, 1, 2, 3), (code, arguments, said[-3000:])
        assert "Traceback" not in said, (arguments, said[-3000:])
        refused += code != 0
    assert refused > COUNT / 2
