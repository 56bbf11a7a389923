"""What a process that stays logs of what its parts have to say."""

from __future__ import annotations

import json
import logging

import pytest

from jettison.node.process.frame import log_of_this_process


@pytest.mark.parametrize(
    ("module", "what"),
    [
        ("jettison.runtimes.kube.leases", "hold a lease"),
        ("jettison.runtimes.kube.cache", "follow the API"),
        ("jettison.controllers.scheduler.scheduler", "reconcile"),
        ("jettison.apiserver.verbs.tunnels", "serve the API"),
        ("asyncio", "asyncio"),
    ],
)
def test_a_failure_is_told_by_what_failed_and_not_by_its_module(
    capfd: pytest.CaptureFixture[str], module: str, what: str
) -> None:
    with log_of_this_process():
        logging.getLogger(module).warning("pods: %s", "Unauthorized")
    (line,) = capfd.readouterr().err.splitlines()
    said = json.loads(line)
    assert (said["level"], said["event"], said["what"], said["why"]) == (
        "error",
        "action_failed",
        what,
        "pods: Unauthorized",
    )
