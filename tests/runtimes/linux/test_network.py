"""Interfaces as the kernel lists them, of this machine and of another network namespace."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from jettison.errors import ObservationError
from jettison.runtimes.linux.network import Interface, Network, has_own_network, read_network

HEAD = "Inter-|   Receive                                                |  Transmit\n"
HEAD += " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls\n"
ROUTES = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\n"


def line(name: str, first: int) -> str:
    return f"{name:>6}: " + " ".join(str(first + number) for number in range(16)) + "\n"


def proc(root: Path, *lines: str, route: str = "") -> Path:
    (root / "self" / "net").mkdir(parents=True)
    (root / "self" / "net" / "dev").write_text(HEAD + "".join(lines))
    if route:
        (root / "self" / "net" / "route").write_text(ROUTES + route)
    return root


def test_the_kubelets_interfaces_and_the_default_one(tmp_path: Path) -> None:
    """The loopback and the host's ends of pods' pairs are none; a long name touches its colon."""
    lines = (line("lo", 1), line("veth12ab", 1), line("wlp0s20f3", 50), line("eth0", 100))
    found = read_network(proc=proc(tmp_path, *lines))
    eth = Interface("eth0", 100, 102, 108, 110)
    assert found == Network((Interface("wlp0s20f3", 50, 52, 58, 60), eth), eth)


@pytest.mark.parametrize(
    ("route", "default"),
    [
        ("ens3\t00000000\t0102A8C0\t0003\t0\t0\t100\t00000000\n", "ens3"),
        ("ens3\t0002A8C0\t00000000\t0001\t0\t0\t100\t00FFFFFF\n", None),
        ("gone0\t00000000\t0102A8C0\t0003\t0\t0\t100\t00000000\n", None),
        ("", None),
    ],
)
def test_without_eth0_the_default_route_tells(route: str, default: str | None, tmp_path: Path) -> None:
    found = read_network(proc=proc(tmp_path, line("ens3", 1), line("ens4", 1), route=route))
    assert found is not None
    assert (None if found.default is None else found.default.name) == default


def test_what_cannot_be_read(tmp_path: Path) -> None:
    assert read_network(77, tmp_path) is None
    with pytest.raises(ObservationError, match="no numbers of an interface"):
        read_network(proc=proc(tmp_path, "  eth0: " + "x " * 16 + "\n"))


@pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace takes root")
def test_another_namespace_has_other_interfaces() -> None:
    assert not has_own_network(os.getpid())
    command = ["unshare", "--net", "sh", "-c", "echo; exec sleep 60"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            assert has_own_network(process.pid)
            assert read_network(process.pid) == Network((), None)
        finally:
            process.kill()
    assert not has_own_network(process.pid)
