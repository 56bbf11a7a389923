"""What is otherwise in a new policy, and what of it may change while a node runs."""

from __future__ import annotations

from dataclasses import fields

import pytest

from jettison.agent.journal.policy_records import LIVE, SettingChange, policy_changes, with_live_changes
from jettison.engine.config.kubelet_fields import FIELDS
from jettison.engine.config.policy import IMPROVED
from jettison.errors import PolicyError
from tests.builders import policy

OLD = policy({"memory.available": "100Mi", "pid.available": "10"}, {"memory.available": "200Mi"})


def test_every_change_is_named_with_both_values() -> None:
    new = policy(
        {"memory.available": "150Mi", "nodefs.available": "5%"},
        {"memory.available": "200Mi"},
        grace="1m",
        evictionPressureTransitionPeriod="30s",
        imageGCHighThresholdPercent=90,
        systemReserved={"memory": "1Gi"},
        maxPods=20,
        switches=IMPROVED,
        flags=[("maximum-dead-containers", "7")],
    )
    assert policy_changes(OLD, OLD) == []
    assert policy_changes(OLD, new) == [
        SettingChange("evictionHard.memory.available", "100Mi", "150Mi", is_live=True),
        SettingChange("evictionHard.nodefs.available", "not set", "5%", is_live=True),
        SettingChange("evictionHard.pid.available", "10", "not set", is_live=True),
        SettingChange("evictionSoftGracePeriod.memory.available", "30s", "1m", is_live=True),
        SettingChange("evictionPressureTransitionPeriod", "5m0s", "30s", is_live=True),
        SettingChange("systemReserved.memory", "not set", "1Gi", is_live=False),
        SettingChange("imageGCHighThresholdPercent", "85", "90", is_live=True),
        SettingChange("--maximum-dead-containers", "-1", "7", is_live=True),
        SettingChange("maxPods", "110", "20", is_live=False),
        SettingChange("--profile", "kubelet", ", ".join(sorted(_switches())), is_live=False),
    ]
    merged = with_live_changes(OLD, new)
    assert [each for each in policy_changes(OLD, merged) if not each.is_live] == []
    assert {each.key for each in policy_changes(merged, new)} == {"systemReserved.memory", "maxPods", "--profile"}
    assert merged.images.high_percent == 90
    assert merged.containers.total == 7


def _switches() -> list[str]:
    return [each.name for each in fields(IMPROVED) if getattr(IMPROVED, each.name)]


def test_only_fields_that_exist_can_be_live() -> None:
    assert {row.attribute for row in FIELDS} >= LIVE


def test_what_does_not_go_together_changes_nothing() -> None:
    """A new low mark beside the old high one is checked as a whole, as at a start."""
    new = policy({"memory.available": "100Mi"}, imageGCHighThresholdPercent=90, imageGCLowThresholdPercent=88)
    assert with_live_changes(OLD, new).images.low_percent == 88
    with pytest.raises(PolicyError):
        policy({"memory.available": "100Mi"}, imageGCHighThresholdPercent=50)
