"""The names of templates: stable over releases, and different for what differs."""

from __future__ import annotations

from typing import Any

import pytest

from jettison.engine.workloads.template_hash import is_same_template, template_hash

TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "c", "image": "i:1"}], "volumes": [{"name": "v", "emptyDir": {}}]},
}


def test_the_value_is_never_dropped() -> None:
    """Another value after an upgrade would give every Deployment a second ReplicaSet of the same name."""
    assert template_hash(TEMPLATE) == "v86jf8gb88"
    assert template_hash(TEMPLATE, 1) == "5csgtlmqq4"


SAME = [
    {"spec": TEMPLATE["spec"], "metadata": {"labels": {"app": "web"}, "creationTimestamp": None}},
    {**TEMPLATE, "metadata": {"labels": {"app": "web"}, "finalizers": []}},
]


@pytest.mark.parametrize("other", SAME)
def test_what_is_as_good_as_absent_does_not_count(other: dict[str, Any]) -> None:
    assert template_hash(other) == template_hash(TEMPLATE)
    assert is_same_template(other, TEMPLATE)


DIFFERENT = [
    {**TEMPLATE, "metadata": {}},
    {**TEMPLATE, "spec": {**TEMPLATE["spec"], "volumes": [{"name": "v"}]}},
    {**TEMPLATE, "spec": {**TEMPLATE["spec"], "containers": [{"name": "c", "image": "i:2"}]}},
]


@pytest.mark.parametrize("other", DIFFERENT)
def test_what_differs_differs(other: dict[str, Any]) -> None:
    assert template_hash(other) != template_hash(TEMPLATE)
    assert not is_same_template(other, TEMPLATE)


def test_the_hash_in_a_template_is_looked_through() -> None:
    labelled = {**TEMPLATE, "metadata": {"labels": {"app": "web", "pod-template-hash": "x"}}}
    assert is_same_template(labelled, TEMPLATE)
    bare = {**TEMPLATE, "metadata": {}}
    assert is_same_template({**TEMPLATE, "metadata": {"labels": {"pod-template-hash": "x"}}}, bare)
