"""The attacks of `tests/soak.py`, each with a few tries: seconds instead of minutes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.attacks.clocks import jump
from tests.attacks.command_lines import run_random_commands
from tests.attacks.manifests import write_random_manifests
from tests.attacks.requests import send_random_requests
from tests.attacks.state_files import damage_agent, damage_server

pytestmark = pytest.mark.timeout(240)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="cgroups with limits need root")


@needs_root
def test_a_clock_that_jumps_moves_no_grace_period_and_no_deadline(tmp_path: Path) -> None:
    tally = jump(tmp_path, seed=3, jumps=2)
    tally.verify()
    assert tally.seen == {"evictions": 2, "deadlines": 2}


@needs_root
def test_an_agent_starts_whatever_became_of_its_files(tmp_path: Path) -> None:
    damage_agent(tmp_path, seed=3, tries=10).verify()


@needs_root
def test_no_manifest_silences_the_agent(tmp_path: Path) -> None:
    tally = write_random_manifests(tmp_path, seed=3, count=60)
    tally.verify()
    assert tally.seen["bombs"] > 10


def test_a_server_serves_what_was_stored_or_refuses(tmp_path: Path) -> None:
    damage_server(tmp_path, seed=3, tries=12).verify()


def test_random_requests_by_five_identities(tmp_path: Path) -> None:
    tally = send_random_requests(tmp_path, seed=3, count=1500)
    tally.verify()
    assert tally.seen["2xx"] > 50


def test_random_command_lines_and_files(tmp_path: Path) -> None:
    run_random_commands(tmp_path, seed=3, count=20).verify()
