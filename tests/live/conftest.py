"""What live tests share: the machines they run on, or the reason why they cannot run here."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NoReturn

import pytest

from tests.live import containerd as containerds
from tests.live.containerd import Containerd
from tests.live.debian import GuestUnavailableError
from tests.live.guest import Guest
from tests.live.kubectl import Kubectl, debian_kubectl, installed_kubectl
from tests.live.served import Served, serving

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
    """Skip, except where it would not be noticed: root in continuous integration can have a guest, so it must."""
    if is_root and environment.get("CI"):
        pytest.fail(f"no guest: {reason}", pytrace=False)
    pytest.skip(f"no guest: {reason}")


@pytest.fixture(scope="session")
def containerd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containerd]:
    """A private one with a small image, shared by all tests of a worker; up in a second once its programs are there."""
    if os.geteuid() != 0:
        pytest.skip("no containerd: only root can run it")
    try:
        containerds.programs()
    except GuestUnavailableError as error:
        without_guest(str(error), os.environ, is_root=True)
    with containerds.running(tmp_path_factory.mktemp("c")) as found:
        yield found


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """An API without controllers, with one node `n1`."""
    with serving(tmp_path_factory.mktemp("served") / "state", "--controllers=") as server:
        assert server.call("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}})[0] == 201
        yield server


@pytest.fixture(scope="module")
def program(request: pytest.FixtureRequest) -> Path:
    """The kubectl that is installed, or else Debian's. Tests that are run with both name each as a parameter."""
    which = getattr(request, "param", "any")
    if which != "debian" and (found := installed_kubectl()) is not None:
        return found
    if which == "installed":
        pytest.skip("no kubectl is installed")
    try:
        return debian_kubectl()
    except GuestUnavailableError as error:
        without_guest(str(error), os.environ, is_root=os.geteuid() == 0)


@pytest.fixture(scope="module")
def kubectl_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shared by a module: kubectl keeps there what it discovered, which takes it a second."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def kubectl(served: Served, program: Path, kubectl_home: Path) -> Kubectl:
    """As admin, in a namespace of its own."""
    name = f"t{time.monotonic_ns()}"
    assert served.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})[0] == 201
    return Kubectl(program, served.kubeconfig(), kubectl_home, name)
