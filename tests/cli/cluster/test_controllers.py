"""`jettison controllers` as a process of its own beside a server without any."""

from __future__ import annotations

import json
import select
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jettison.controllers.runner import SERVER, SERVER_SECONDS
from tests.cli.running import run
from tests.live.quick_start import jettison
from tests.live.served import Served, end, serving, start

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/jettison-controllers"
ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("served") / "state", "--controllers=-") as server:
        yield server


@contextmanager
def _controllers(served: Served, *arguments: str, log: Path | None = None) -> Iterator[str]:
    """Its first line; it must end by SIGTERM, cleanly."""
    words = ["controllers", "--kubeconfig", str(served.kubeconfig("controllers")), *arguments]
    with (log or Path("/dev/null")).open("w") as errors:
        process = jettison(words, errors)
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
    _budget(served, "first")
    with _controllers(served):
        assert _waits(served, "first", 20)
        holder = _holder(served)
        with _controllers(served):
            assert _holder(served) == holder
    assert _holder(served) == "", "the last one gives it back"
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
        assert _holder(server) == SERVER
    with serving(tmp_path / "state", "--controllers=-") as server:
        assert server.call("GET", LEASE)[1]["spec"]["holderIdentity"] == "", "it was given up at the end"


def _holder(served: Served) -> str:
    code, lease = served.call("GET", LEASE)
    return str(lease["spec"].get("holderIdentity", "")) if code == 200 else ""


def _until(look: Callable[[], bool], what: str, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def _has_account(server: Served) -> bool:
    return bool(server.call("GET", ACCOUNT)[0] == 200)


def _crash(server: Served) -> None:
    """Without a chance to give anything up; its controllers end with it."""
    end(server.process, signal.SIGKILL)


def test_beside_the_controllers_of_a_server_others_stand_by(tmp_path: Path) -> None:
    """Also after a crash: the server has its lease again at once, so that no two sets act, and never none."""
    state, log = tmp_path / "state", tmp_path / "log"
    first = start(state)
    try:
        _until(lambda: _holder(first) == SERVER, "the server's controllers hold the lease")
        with _controllers(first, log=log):
            said = f"lease kube-system/jettison-controllers is held by {SERVER}: standing by"
            _until(lambda: said in log.read_text(), "the other one says that it stands by")
            [line] = [json.loads(each) for each in log.read_text().splitlines() if said in each]
            assert (line["level"], line["event"]) == ("info", "noted"), "to wait is no failure"
            _budget(first, "four")
            assert _waits(first, "four", 30)
            assert _holder(first) == SERVER
            _crash(first)
            with serving(state, listen=f"127.0.0.1:{first.port}") as again:
                _budget(again, "five")
                assert _waits(again, "five", SERVER_SECONDS / 2), "long before its lease would have expired"
                assert _holder(again) == SERVER
                turns = again.call("GET", LEASE)[1]["spec"]["leaseTransitions"]
                assert turns == 0, "no other has held it"
    finally:
        _crash(first)


def test_a_server_waits_for_controllers_that_came_first(tmp_path: Path) -> None:
    state = tmp_path / "state"
    first = start(state, "--controllers=-")
    again: Served | None = None
    try:
        assert _holder(first) == "", "a server without controllers wants no lease"
        with _controllers(first, "--controllers=disruption"):
            _until(lambda: _holder(first) not in ("", SERVER), "it holds the lease")
            holder = _holder(first)
            _crash(first)
            again = start(state, "--controllers=disruption,serviceaccount", listen=f"127.0.0.1:{first.port}")
            _budget(again, "six")
            assert _waits(again, "six", 60)
            assert _holder(again) == holder
            assert again.call("GET", ACCOUNT)[0] == 404, "only the server's own controllers make it, and they wait"
        _until(partial(_has_account, again), "the server's own have taken over")
        assert _holder(again) == SERVER
    finally:
        _crash(first)
        if again is not None:
            assert end(again.process, signal.SIGTERM) == 0


@pytest.mark.parametrize("command", ["serve", "controllers"])
def test_an_unknown_name_is_refused_before_anything_is_done(command: str) -> None:
    result = run(command, "--controllers=nonsense")
    assert result.exit_code == 2
    assert "`nonsense` is not in the list of known controllers" in result.stderr
