"""Names of cgroups with both drivers: a kubelet's for the same pods, and back."""

from __future__ import annotations

import pytest

from jettison.runtimes.linux.cgroups.names import CgroupNames

UID = "6f0b2c1e-9d1a-4a39-8a75-3a7f4f1b2c3d"
SLICES = CgroupNames(are_slices=True)


def test_a_kubelets_slices() -> None:
    """As its documentation and every node with systemd show them."""
    kubepods = SLICES.top("kubepods")
    burstable = SLICES.child(kubepods, "burstable")
    pod = SLICES.child(burstable, f"pod{UID}")
    assert kubepods == "kubepods.slice"
    assert burstable == "kubepods.slice/kubepods-burstable.slice"
    last = "kubepods-burstable-pod6f0b2c1e_9d1a_4a39_8a75_3a7f4f1b2c3d.slice"
    assert pod == f"{burstable}/{last}"
    guaranteed = SLICES.child(kubepods, f"pod{UID}")
    assert guaranteed.endswith("/kubepods-pod6f0b2c1e_9d1a_4a39_8a75_3a7f4f1b2c3d.slice")


def test_the_node_of_an_operator_becomes_slices_inside_each_other() -> None:
    assert SLICES.top("jettison/node-1") == "jettison.slice/jettison-node_1.slice"
    assert SLICES.child(SLICES.top("jettison/node-1"), "kubepods").endswith("/jettison-node_1-kubepods.slice")


@pytest.mark.parametrize("names", [SLICES, CgroupNames()])
@pytest.mark.parametrize("name", [f"pod{UID}", "poda_b-c", "pod_", "pod-", "burstable", "podx.y"])
def test_a_name_can_be_read_back(names: CgroupNames, name: str) -> None:
    """A pod whose cgroup was taken for another one's would be ended."""
    parent = names.top("jettison/node-1")
    assert names.own(names.child(parent, name)) == name


def test_plain_names_are_directories() -> None:
    plain = CgroupNames()
    assert plain.top("jettison/node-1") == "jettison/node-1"
    assert plain.child("a", "pod-1") == "a/pod-1"
