"""Attacks of `tests/soak.py` that no other test makes, each with a few tries: seconds instead of minutes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attacks.damaged_bytes import send_damaged_bytes
from tests.attacks.requests import send_random_requests
from tests.attacks.state_files import damage_server

pytestmark = pytest.mark.timeout(300)


def test_a_server_serves_what_was_stored_or_refuses(tmp_path: Path) -> None:
    damage_server(tmp_path, seed=3, tries=12).verify()


def test_random_requests_by_five_identities(tmp_path: Path) -> None:
    tally = send_random_requests(tmp_path, seed=3, count=1500)
    tally.verify()
    assert tally.seen["2xx"] > 15


def test_requests_whose_bytes_are_damaged(tmp_path: Path) -> None:
    tally = send_damaged_bytes(tmp_path, seed=3, count=300)
    tally.verify()
    assert tally.seen["answered"] > 100
