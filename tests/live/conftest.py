"""What live tests share: the machines they run on, or the reason why they cannot run here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NoReturn

import pytest
from tests.live.debian import GuestUnavailableError
from tests.live.guest import Guest

# The first run on a machine installs QEMU and downloads a kernel: 25 s here, minutes on a slow line; later ones, 0.
_FIRST_BUILD_SECONDS = 600


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "guest" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(_FIRST_BUILD_SECONDS))


@pytest.fixture(scope="session")
def guest() -> Guest:
    try:
        return Guest.build()
    except GuestUnavailableError as error:
        without_guest(str(error), os.environ, is_root=os.geteuid() == 0)


def without_guest(reason: str, environment: Mapping[str, str], *, is_root: bool) -> NoReturn:
    """Skip, except where nobody would notice: root in continuous integration can have a guest, so it must."""
    if is_root and environment.get("CI"):
        pytest.fail(f"no guest: {reason}", pytrace=False)
    pytest.skip(f"no guest: {reason}")
