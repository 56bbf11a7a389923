"""What starting costs: modules and milliseconds. A starving node is no time to load code, and no time to wait for it.

Everything is measured in fresh interpreters with warm bytecode, in CPU time, and the best of several runs counts: noise
only ever adds. Where the machine's speed would decide, the bar is a multiple of something measured beside it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jettison import engine

RUNS = 10
ENGINE_BAR_MS = 30.0
HELP_BAR_MS = 150.0
# Measured 2.5: some thirty frozen dataclasses cost as much as the library that makes them.
DECIDE_BAR = 4.5
LIBRARY = "dataclasses, enum, re, typing, collections.abc"
_ENGINE = Path(engine.__path__[0])
ENGINE_MODULES = sorted(
    ".".join(("jettison", "engine", *path.relative_to(_ENGINE).with_suffix("").parts))
    for path in _ENGINE.rglob("[a-z]*.py")
)
# Each costs as much as all of the engine, and none has any business in it.
HEAVY = {"asyncio", "json", "logging", "socket", "subprocess", "msgspec", "yaml", "click"}

LIST_MODULES = "import sys; print(*sorted({name.partition('.')[0] for name in sys.modules}))"


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    """Bytecode is written and read, as it is for an installed program."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def run(code: str, environment: dict[str, str]) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def loaded(code: str, environment: dict[str, str]) -> set[str]:
    """Top-level modules that `code` loads beyond those of a bare interpreter."""
    bare = set(run(LIST_MODULES, environment).split())
    return set(run(f"{code}\n{LIST_MODULES}", environment).splitlines()[-1].split()) - bare


def third_party(modules: set[str]) -> set[str]:
    return modules - set(sys.stdlib_module_names) - {"jettison"}


def import_ms(modules: str, environment: dict[str, str], enough: float = 0.0) -> float:
    """CPU milliseconds of an import in the best of several fresh interpreters; stops once it is `enough`."""
    probe = f"import time; began = time.process_time(); import {modules}; print(time.process_time() - began)"
    best = float("inf")
    for _ in range(RUNS):
        best = min(best, float(run(probe, environment)) * 1e3)
        if best <= enough:
            break
    return best


# A child for each module, forked before anything of ours is loaded, but after what each of them needs of the standard
# library: a hundred times quicker than an interpreter each.
EACH_ALONE = f"""
import os, sys, {LIBRARY}
bare = set(sys.modules)
for module in sys.argv[1:]:
    sys.stdout.flush()
    child = os.fork()
    if not child:
        try:
            __import__(module)
        except BaseException as error:
            print(module, "failed:", type(error).__name__, error)
        else:
            print(module, "loaded", *sorted({{name.partition(".")[0] for name in sys.modules.keys() - bare}}))
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.fixture(scope="module")
def imported_alone(environment: dict[str, str]) -> dict[str, list[str]]:
    """For each module of the engine what became of its import, and what that has loaded."""
    command = [sys.executable, "-c", EACH_ALONE, *ENGINE_MODULES]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()}


@pytest.mark.parametrize("module", ENGINE_MODULES)
def test_every_engine_module_can_be_imported_alone(module: str, imported_alone: dict[str, list[str]]) -> None:
    """First of all: no circle, no third-party module, whichever is imported first."""
    outcome, *names = imported_alone[module]
    assert outcome == "loaded", names
    assert third_party(set(names)) == set()
    assert "jettison" in names


def test_the_engine_loads_nothing_heavy(environment: dict[str, str]) -> None:
    """All of its modules together: standard library only, and only its small parts."""
    modules = loaded(f"import {', '.join(ENGINE_MODULES)}", environment)
    assert third_party(modules) == set()
    assert modules & HEAVY == set()


def test_importing_the_engine_is_quick(environment: dict[str, str]) -> None:
    """At most 30 ms beyond a bare interpreter."""
    assert import_ms("jettison.engine", environment, ENGINE_BAR_MS) <= ENGINE_BAR_MS


def test_importing_the_core_call_is_quick(environment: dict[str, str]) -> None:
    """All that a decision needs, against the part of the standard library that every module needs."""
    library = import_ms(LIBRARY, environment)
    assert import_ms("jettison.engine.node.decide", environment, DECIDE_BAR * library) <= DECIDE_BAR * library


HELP = """
import sys
from jettison.cli import main
sys.argv = ["jettison", "--help"]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
"""


def test_help_loads_click_and_nothing_else(environment: dict[str, str]) -> None:
    """Neither asyncio nor a third-party module beyond click, nor the engine."""
    modules = loaded(HELP, environment)
    assert third_party(modules) == {"click"}
    assert "asyncio" not in modules
    names = run(f"{HELP}\nprint(*sys.modules)", environment).splitlines()[-1].split()
    assert "jettison.engine.node.decide" not in names


def test_help_answers_at_once(environment: dict[str, str]) -> None:
    """In under 150 ms from the start of the process."""
    probe = f"{HELP}\nimport time\nprint(time.process_time())"
    best = float("inf")
    for _ in range(RUNS):
        best = min(best, float(run(probe, environment).splitlines()[-1]) * 1e3)
        if best < HELP_BAR_MS:
            break
    assert best < HELP_BAR_MS


# Prints which modules of ours a command has loaded when it is about to make its first connection.
FIRST_REQUEST = """
import asyncio.base_events, os, sys
async def connected(*_, **__):
    print(*(name for name in sys.modules if name.startswith("jettison.")), flush=True)
    os._exit(0)
asyncio.base_events.BaseEventLoop.create_connection = connected
from jettison.cli import main
sys.argv[0] = "jettison"
main()
"""
# Modules of ours that may be loaded by then. Each class of values costs 0.25 ms, and a module has two or three.
REQUEST_BUDGETS = {
    ("cordon", "n1"): 44,
    ("drain", "n1"): 47,
    ("drain", "n1", "--plan"): 47,
    ("evict", "p1"): 63,
    ("explain", "p1", "--node", "n1"): 50,
    ("next", "--node", "n1"): 49,
    ("rank", "--node", "n1"): 46,
    ("decide", "--node", "n1"): 46,
    ("lint", "--node", "n1"): 49,
    ("record", "recording", "--node", "n1"): 43,
}


@pytest.mark.parametrize("words", REQUEST_BUDGETS, ids=" ".join)
def test_the_first_request_waits_for_few_modules(
    words: tuple[str, ...], environment: dict[str, str], tmp_path: Path
) -> None:
    """Neither a decision nor a journal is loaded to ask a cluster: what judges the answer comes after the question."""
    command = [sys.executable, "-c", FIRST_REQUEST, *words, "--server", "http://127.0.0.1:1"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
    names = done.stdout.split()
    assert len(names) <= REQUEST_BUDGETS[words], sorted(names)
    late = ("jettison.agent.journal", "jettison.engine.node.decide", "jettison.simulator")
    assert not [name for name in names if name.startswith(late)]


STAYING = {
    # Of relief the command line, which is read first, and the process that stays: each with what it has no use for.
    "jettison.cli.cluster.relieve": ("http", "jettison.agent.journal", "jettison.cli.inspect", "jettison.controllers"),
    "jettison.node.relief": ("click", "jettison.node.watch", "jettison.agent.agent", "jettison.relief"),
    "jettison.node.relief_watch": (
        "click",
        "jettison.node.node",
        "jettison.membership",
        "jettison.runtimes.host.runtime",
    ),
    # Started for each certificate of a node.
    "jettison.node.kubelet.certificate_program": (
        "asyncio",
        "msgspec",
        "yaml",
        "jettison.events",
        "jettison.membership",
    ),
    # A server whose controllers and nodes are in other processes.
    "jettison.node.cluster.local_cluster": ("jettison.controllers.runner", "jettison.node.node"),
}


@pytest.mark.parametrize("module", STAYING)
def test_what_stays_loads_nothing_that_another_process_does(module: str, environment: dict[str, str]) -> None:
    """Relief starts twice, and stands beside a kubelet; a server with 10,000 pods has to be back soon."""
    names = run(f"import sys, {module}\nprint(*sys.modules)", environment).split()
    assert not [name for name in names if name.startswith(STAYING[module])]
