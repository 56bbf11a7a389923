"""The size of a pod's owner."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jettison.engine.workloads.owners import OwnerReference, Scale, ScaleFailure, Workload, Workloads
from jettison.errors import InputError

DEPLOYMENT = OwnerReference("apps/v1", "Deployment", "web", "uid-web")
REPLICA_SET = OwnerReference("apps/v1", "ReplicaSet", "web-1", "uid-web-1")
WIDGET = OwnerReference("example.com/v1", "Widget", "w", "uid-w")


def deployed(parent: OwnerReference | None) -> Workloads:
    """A ReplicaSet of 2 under a Deployment of 6."""
    return Workloads(
        deployments={"web": Workload("uid-web", 6)}, replica_sets={"web-1": Workload("uid-web-1", 2, parent)}
    )


@pytest.mark.parametrize(
    ("table", "kind", "api_version", "is_listed"),
    [
        ("replication_controllers", "ReplicationController", "v1", True),
        ("replication_controllers", "ReplicationController", "apps/v1", False),
        ("replica_sets", "ReplicaSet", "apps/v1", True),
        ("replica_sets", "ReplicaSet", "extensions/v1beta1", True),
        ("replica_sets", "ReplicaSet", "v1", False),
        ("stateful_sets", "StatefulSet", "apps/v1beta2", True),
        ("stateful_sets", "StatefulSet", "extensions/v1beta1", False),
        ("deployments", "Deployment", "apps/v1", False),
    ],
)
def test_a_listed_owner_has_kind_group_name_and_uid(table: str, kind: str, api_version: str, is_listed: bool) -> None:
    """Any version of the group will do. A Deployment owns no pods directly, so as an owner it is read, not listed."""
    owner = OwnerReference(api_version, kind, "x", "uid-x")
    workloads = Workloads(**{table: {"x": Workload("uid-x", 4)}})  # type: ignore[arg-type]
    assert workloads.listed_scale(owner) == (Scale("uid-x", 4) if is_listed else None)
    assert workloads.listed_scale(replace(owner, uid="newer")) is None
    assert workloads.listed_scale(replace(owner, name="y")) is None


@pytest.mark.parametrize(
    ("parent", "scale"),
    [
        (None, Scale("uid-web-1", 2)),
        (DEPLOYMENT, Scale("uid-web", 6)),
        (replace(DEPLOYMENT, api_version="extensions/v1beta1"), Scale("uid-web", 6)),
        (replace(DEPLOYMENT, uid="newer"), None),
        (replace(DEPLOYMENT, name="gone"), None),
        (replace(DEPLOYMENT, api_version="example.com/v1"), None),
        (replace(DEPLOYMENT, kind="Rollout"), Scale("uid-web-1", 2)),
    ],
)
def test_a_replica_set_counts_as_its_deployment(parent: OwnerReference | None, scale: Scale | None) -> None:
    """Under a Deployment that cannot be found its own size is not taken; under any other controller it is."""
    assert deployed(parent).listed_scale(REPLICA_SET) == scale


def test_what_is_not_listed_counts_by_its_scale() -> None:
    """The answer must be about the very owner: an object made anew under the name is another."""
    scales = {WIDGET: Scale("uid-w", 3), REPLICA_SET: Scale("uid-web-1", 2)}
    workloads = replace(deployed(replace(DEPLOYMENT, name="gone")), scales=scales)
    assert workloads.scale_of(WIDGET) == Scale("uid-w", 3)
    assert workloads.scale_of(REPLICA_SET) == Scale("uid-web-1", 2)
    assert Workloads(scales={WIDGET: Scale("newer", 3)}).scale_of(WIDGET) is None
    assert Workloads(scales={WIDGET: None}).scale_of(WIDGET) is None


@pytest.mark.parametrize(
    ("owner", "workloads", "complaint"),
    [
        (WIDGET, Workloads(), 'no matches for kind "Widget" in version "example.com/v1"'),
        (replace(WIDGET, api_version=""), Workloads(), 'no matches for kind "Widget" in version ""'),
        (replace(WIDGET, api_version="/v1"), Workloads(), 'no matches for kind "Widget" in version "v1"'),
        (replace(WIDGET, api_version="a/b/c"), Workloads(), "unexpected GroupVersion string: a/b/c"),
        (REPLICA_SET, deployed(replace(DEPLOYMENT, api_version="a/b/c")), "unexpected GroupVersion string: a/b/c"),
        (WIDGET, Workloads(scales={WIDGET: ScaleFailure("boom")}), "boom"),
    ],
)
def test_complaints(owner: OwnerReference, workloads: Workloads, complaint: str) -> None:
    """In Kubernetes' words, because they end up in the budget's condition."""
    with pytest.raises(InputError) as caught:
        workloads.scale_of(owner)
    assert str(caught.value) == complaint
