"""`jettison controllers` as a process of its own beside a server without any."""

from __future__ import annotations

import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import run
from tests.live.served import Served, serving

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("served") / "state", "--controllers=-") as server:
        yield server


@contextmanager
def _controllers(served: Served, *arguments: str) -> Iterator[str]:
    """Its first line; it must end by SIGTERM, cleanly."""
    command = [sys.executable, "-m", "jettison", "controllers", "--kubeconfig", str(served.kubeconfig("controllers"))]
    process = subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        readable, _, _ = select.select([process.stdout], [], [], 60)
        assert readable
        yield process.stdout.readline()
        assert process.poll() is None
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(60)
        process.stdout.close()
    assert code == 0


def _status(served: Served, name: str) -> dict[str, Any]:
    found: dict[str, Any] = served.call("GET", f"{BUDGETS}/{name}")[1]["status"]
    return found


def _budget(served: Served, name: str) -> None:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": name}}}
    assert served.call("POST", BUDGETS, {"metadata": {"name": name}, "spec": spec})[0] == 201


def _waits(served: Served, name: str, seconds: float) -> bool:
    """Whether the budget gets its status in this time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if _status(served, name).get("observedGeneration"):
            return True
        time.sleep(0.05)
    return False


def test_without_controllers_nothing_is_counted_and_with_them_it_is(served: Served) -> None:
    _budget(served, "one")
    assert not _waits(served, "one", 0.5)
    with _controllers(served) as line:
        assert line.startswith(f"running against {served.url}: ")
        assert " disruption-controller, " in line
        assert _waits(served, "one", 10)


def test_of_two_one_works_and_the_other_takes_over(served: Served) -> None:
    lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/jettison-controllers"
    _budget(served, "first")
    with _controllers(served):
        assert _waits(served, "first", 20)
        holder = served.call("GET", lease)[1]["spec"]["holderIdentity"]
        with _controllers(served):
            assert served.call("GET", lease)[1]["spec"]["holderIdentity"] == holder
    assert served.call("GET", lease)[1]["spec"]["holderIdentity"] == "", "the last one gives it back"
    _budget(served, "second")
    with _controllers(served), _controllers(served, "--no-leader-elect", "--controllers=disruption"):
        assert _waits(served, "second", 20)


def test_one_that_is_left_out_does_nothing(served: Served) -> None:
    _budget(served, "two")
    with _controllers(served, "--controllers=*,-disruption") as line:
        assert "disruption" not in line
        assert "taint-eviction-controller" in line
        assert not _waits(served, "two", 1)


def test_a_server_has_its_own_unless_told_otherwise(tmp_path: Path) -> None:
    with serving(tmp_path / "state") as server:
        _budget(server, "three")
        assert _waits(server, "three", 10)


@pytest.mark.parametrize("command", ["serve", "controllers"])
def test_an_unknown_name_is_refused_before_anything_is_done(command: str) -> None:
    result = run(command, "--controllers=nonsense")
    assert result.exit_code == 2
    assert "`nonsense` is not in the list of known controllers" in result.stderr
