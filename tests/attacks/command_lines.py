"""Random command lines with odd options and odd files: each ends in an answer or in one line of error."""

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

from jettison.agent.journal.files import MAGIC, frame
from jettison.cli.program import COMMANDS, program
from tests.attacks.tally import Tally
from tests.hostile import FACT, VALID, encoded

PATIENCE = 60.0

# These would act for real, or only end when they are told to; what they read is read by others here.
LEFT_OUT = {"demo", "top", "serve", "controllers", "down"}
# What a command is always told, so that a line with good options only does no harm to this machine's own engines.
ALWAYS = {"gc": ["--plan"]}
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
    """A node whose files hold anything but what an agent writes."""
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
    said = [*words, *ALWAYS.get(words[0], ())]
    # A command that follows waits, which is meant.
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


@contextlib.contextmanager
def _at_home(folder: Path) -> Iterator[None]:
    """There, and without a cluster."""
    before = dict(os.environ)
    os.environ.pop("KUBECONFIG", None)
    os.environ["HOME"] = str(folder)
    try:
        with contextlib.chdir(folder):
            yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def run_random_commands(folder: Path, seed: int, count: int) -> Tally:
    """No traceback, no signal, no wait."""
    tally = Tally("command lines", count)
    chance = random.Random(seed)
    files, state, known = odd_files(folder), odd_state(folder), list(leaves())
    with _at_home(folder):
        for number in range(count):
            words, command = known[number % len(known)]
            arguments = line(chance, words, command, files, state)
            code, said = end_of(arguments)
            tally.seen[f"exit {code}"] += 1
            tally.check(code in (0, 1, 2, 3), f"{code} of {arguments}: {said[-3000:]}")
            tally.check("Traceback" not in said, f"{arguments}: {said[-3000:]}")
    return tally
