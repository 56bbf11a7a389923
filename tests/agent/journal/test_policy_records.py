"""What a kubelet says of its configuration, as a policy."""

from __future__ import annotations

from typing import Any

import pytest

from jettison.agent.journal.policy_records import policy_of_kubelet
from jettison.errors import ObservationError


def test_what_a_kubelet_says_of_its_configuration() -> None:
    """It leaves out maps that are empty, and has fields that we do not know: those of a newer one, too."""
    told = {"evictionSoft": {"memory.available": "1Gi"}, "evictionSoftGracePeriod": {"memory.available": "90s"}}
    other = {
        "clusterDNS": ["10.0.0.10"],
        "someField": {"of": "a newer kubelet"},
        "evictionPressureTransitionPeriod": "5m0s",
    }
    found = policy_of_kubelet({"kubeletconfig": {**told, **other}}, "kubelet")
    assert [str(each) for each in found.thresholds] == ["memory.available<1Gi for 1m30s"]
    damaged: list[dict[str, Any]] = [{}, {"kubeletconfig": 5}, {"kubeletconfig": {"evictionHard": {"a": "1GB"}}}]
    for wrong in damaged:
        with pytest.raises(ObservationError):
            policy_of_kubelet(wrong, "kubelet")
