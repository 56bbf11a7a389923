"""Where a kubelet keeps a pod, with both of its drivers, and what an answer of the API is about."""

from __future__ import annotations

import pytest

from jettison.errors import ApiError
from jettison.relief.runtime import is_failure, pod_cgroups

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


BUDGET = {"causes": [{"reason": "DisruptionBudget", "message": "The disruption budget a needs 1 healthy pods"}]}
TWO = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ApiError("etcdserver: leader changed"), True),
        (ApiError("unavailable", code=503), True),
        (ApiError("Too many requests, please try again later.", code=429), True),
        (ApiError("Cannot evict pod", code=429, details=BUDGET), False),
        (ApiError(TWO), False),
        (ApiError("denied by a webhook", code=403), False),
    ],
)
def test_a_server_that_fails_has_refused_no_pod(error: ApiError, expected: bool) -> None:
    assert is_failure(error) is expected
