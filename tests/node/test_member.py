"""Under which address a node joins: one that the API server can call."""

from __future__ import annotations

import asyncio
import ipaddress
from pathlib import Path

import pytest

from jettison.node.member import _called_address, own_address

_DEFAULT = "00000000"


def has_a_way_to_the_world() -> bool:
    """A default route of IPv4, as the kernel lists it: interface, destination, …"""
    rows = [line.split() for line in Path("/proc/net/route").read_text().splitlines()[1:]]
    return any(row[1] == _DEFAULT for row in rows)


@pytest.mark.parametrize("server", ["https://127.0.0.1:6443", "https://no-such-host.invalid:6443", "https://[::1]:1"])
def test_on_the_way_to_a_server_of_this_machine_it_is_the_loopback(server: str) -> None:
    """Also where the server cannot be found: a node begins before its API."""
    assert ipaddress.ip_address(asyncio.run(own_address(server))).is_loopback


@pytest.mark.skipif(not has_a_way_to_the_world(), reason="this machine has no default route")
@pytest.mark.parametrize("found", ["127.0.0.1", "::1"])
def test_an_api_server_of_kubernetes_gets_no_loopback_address(found: str) -> None:
    """It refuses to call one, also where the node is on its own machine."""
    assert not ipaddress.ip_address(_called_address(found)).is_loopback


def test_any_other_address_stays() -> None:
    assert [_called_address(each) for each in ("10.1.2.3", "fd00::7")] == ["10.1.2.3", "fd00::7"]
