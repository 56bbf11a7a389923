"""The program around the commands: start-up, help, and how each way of failing ends."""

from __future__ import annotations

import ast
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jettison import __version__
from jettison.cli.program import COMMANDS, INTERRUPTED
from tests.cli.running import DISK, KUBELET, MEMORY, process, run

LISTED = "import sys; print(sorted({name.partition('.')[0] for name in sys.modules}))"
HELP = f"""
import sys
sys.argv = ['jettison', '--help']
from jettison.cli import main
try:
    main()
except SystemExit:
    {LISTED}
"""


def modules_after(code: str) -> set[str]:
    """The top-level modules that a fresh interpreter has loaded at the end."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    return set(ast.literal_eval(done.stdout.splitlines()[-1]))


def test_help_loads_click_and_nothing_else() -> None:
    loaded = modules_after(HELP) - modules_after(LISTED)

    assert "asyncio" not in loaded
    assert {name for name in loaded if name not in sys.stdlib_module_names} == {"jettison", "click"}


def test_help_takes_less_than_150_milliseconds() -> None:
    """Of processor time, and the best of ten: on a machine that does nothing else that is how long one waits."""
    best = 10.0
    for _ in range(10):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert process("--help").returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    assert best < 0.150


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",)])
def test_help_names_every_command(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)

    assert result.exit_code == 0
    assert all(f"  {name} " in result.stdout for name in COMMANDS)


@pytest.mark.parametrize(
    "command", [("rank",), ("decide",), ("config",), ("config", "show"), ("config", "check")], ids=" ".join
)
def test_every_command_has_help(command: tuple[str, ...]) -> None:
    result = run(*command, "--help")

    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: jettison {' '.join(command)}")
    assert ("Kubelet flags:" in result.stdout) == (command != ("config",))


def test_version() -> None:
    assert run("--version").stdout == f"jettison {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("frobnicate",), "error: no such command `frobnicate`"),
        (("rank",), "error: no node is given"),
        (("rank", *MEMORY, "--bogus"), "error: no such option `--bogus`"),
        (("rank", *MEMORY, "-o", "xml"), "error: invalid value for `-o` / `--output`: `xml` is not one of"),
        (("rank", *MEMORY, "--signal", "cpu"), "error: invalid value for `--signal`: `cpu` is not one of `memory.av"),
        (("rank", *MEMORY, "--image-fs", "moon"), "error: invalid value for `--image-fs`: `moon` is not one of"),
        (("rank", *MEMORY, "--max-pods=many"), 'error: invalid argument "many" for "--max-pods" flag: '),
        (("rank", *MEMORY, "--eviction-hard=x"), 'error: invalid argument "x" for "--eviction-hard" flag: malformed'),
        (("config", "chk"), "error: no such command `chk`"),
        (("rank", "--sumary", "x"), "error: no such option `--sumary`, did you mean `--summary`?"),
        (("simulate", "x", "--seed", "x"), "error: invalid value for `--seed`: `x` is not a whole number in"),
    ],
)
def test_a_wrong_command_line_is_told_and_ends_with_2(arguments: tuple[str, ...], message: str) -> None:
    result = run(*arguments)

    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(message)


def test_a_choice_that_resembles_one_is_answered_with_it() -> None:
    said = run("rank", *MEMORY, "--signal", "memory.availble").stderr.splitlines()[0]

    assert said.endswith("`pid.available`, did you mean `memory.available`?")


def test_as_a_process_errors_go_to_standard_error() -> None:
    done = process("rank", "--summary", "/nowhere", "--pods", "/nowhere")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: cannot read `/nowhere`: no such file or directory\n"


def test_as_a_process_standard_input_is_read() -> None:
    with open(MEMORY[1]) as summary:  # noqa: PTH123  a process needs a descriptor
        done = process("rank", "--summary", "-", *MEMORY[2:], "--config", KUBELET, stdin=summary)

    assert done.returncode == 0
    assert done.stdout.startswith("memory.available is starved")


def test_a_reader_that_leaves_early_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed:
        command = [sys.executable, "-m", "jettison", "decide", *DISK, "-o", "json"]
        done = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, text=True, timeout=30, check=False)

    assert done.stderr == ""


def test_an_answer_that_cannot_be_written_is_an_error() -> None:
    with Path("/dev/full").open("w") as full:
        command = (sys.executable, "-m", "jettison", "rank", *MEMORY)
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert done.stderr.endswith("error: cannot write the answer: no space left on device\n")
    assert "Traceback" not in done.stderr


def test_control_c_ends_quietly_with_130() -> None:
    command = [sys.executable, "-m", "jettison", "rank", "--summary", "-", *MEMORY[2:]]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as waiting:
        call = Path(f"/proc/{waiting.pid}/syscall")
        deadline = time.monotonic() + 30
        # read(0, …), by its number here and on ARM.
        while not call.read_text().startswith(("0 0x0 ", "63 0x0 ")) and time.monotonic() < deadline:
            time.sleep(0.02)
        waiting.send_signal(signal.SIGINT)
        said = waiting.stderr.read() if waiting.stderr is not None else ""
        assert waiting.wait(timeout=30) == INTERRUPTED

    assert said.strip() == ""
