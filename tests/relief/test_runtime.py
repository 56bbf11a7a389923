"""Where a kubelet keeps a pod, with both of its drivers."""

from __future__ import annotations

import pytest

from jettison.relief.runtime import pod_cgroups

UID = "1b4e28ba-2fa1-11d2-883f-0016d3cca427"
SLICE = "1b4e28ba_2fa1_11d2_883f_0016d3cca427"


@pytest.mark.parametrize(
    ("root", "qos", "expected"),
    [
        ("", "Guaranteed", [f"kubepods/pod{UID}", f"kubepods.slice/kubepods-pod{SLICE}.slice"]),
        (
            "",
            "Burstable",
            [
                f"kubepods/burstable/pod{UID}",
                f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{SLICE}.slice",
            ],
        ),
        (
            "node",
            "BestEffort",
            [
                f"node/kubepods/besteffort/pod{UID}",
                f"node/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{SLICE}.slice",
            ],
        ),
    ],
)
def test_a_pod_is_found_by_its_class_and_uid(root: str, qos: str, expected: list[str]) -> None:
    assert list(pod_cgroups(root, qos, UID)) == expected
