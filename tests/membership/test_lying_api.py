"""An API whose answers have the shape of something else: each is refused with the name of the field that is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from jettison.clock import SystemClock
from jettison.errors import ApiError, ContentError, ManifestError, UnreachableError
from jettison.manifests.placement import taints_from
from jettison.manifests.pods import pod_from
from jettison.membership import registration
from jettison.membership.api_objects import ApiObjects
from jettison.membership.node_object import conditions_of, next_conditions
from jettison.membership.pod_reports import PodReports, lost_patch, status_patch
from jettison.membership.pod_source import local_uid
from jettison.runtimes.configuration import TokenOrder
from jettison.runtimes.kube.answers import checked
from jettison.runtimes.kube.cache import Cache
from jettison.runtimes.kube.client import KubeClient
from jettison.runtimes.protocol import Hosting, PodStatus
from tests.builders import pod
from tests.hostile import places, with_value
from tests.runtimes.kube.test_client import answer, talk_to_rude

Json = dict[str, Any]

WRONG: tuple[Any, ...] = (None, 5, -1, True, 1.5, "x", "", [], ["x"], [5], [None], {}, {"x": 5}, [[]], [{}], 10**30)
TIME = "2026-01-01T00:00:00Z"
CONDITION = {"type": "Ready", "status": "True", "reason": "a", "lastHeartbeatTime": TIME, "lastTransitionTime": TIME}
NODE: Json = {
    "metadata": {"name": "n", "uid": "u", "resourceVersion": "1", "labels": {"a": "b"}, "ownerReferences": [{}]},
    "spec": {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]},
    "status": {"conditions": [CONDITION]},
}
POD: Json = {
    "metadata": {
        "name": "p",
        "namespace": "d",
        "uid": "u",
        "resourceVersion": "1",
        "generation": 1,
        "deletionTimestamp": TIME,
        "deletionGracePeriodSeconds": 5,
        "annotations": {"kubernetes.io/config.mirror": "b"},
    },
    "spec": {"containers": [{"name": "c"}]},
    "status": {
        "phase": "Running",
        "conditions": [CONDITION],
        "containerStatuses": [{"name": "c", "state": {"running": {}}}],
    },
}
LEASE: Json = {"metadata": {"name": "n", "namespace": "d"}, "spec": {"holderIdentity": "x", "renewTime": TIME}}


def use_node(document: Json) -> None:
    conditions, _ = next_conditions(conditions_of(document), frozenset(), None, 10**18, "n")
    registration._differs({"conditions": [{"type": each.type} for each in conditions]}, document.get("status") or {})
    taints_from(document)


def use_pod(document: Json) -> None:
    status_patch(PodStatus(pod("p"), "Running", started_ns=5), document, "192.0.2.1", 10**18)
    lost_patch(document)
    local_uid(document)
    assert 0 <= (document["metadata"].get("deletionGracePeriodSeconds") or 0) < 2**63


def use_lease(document: Json) -> None:
    lease = registration.NodeLease(cast(KubeClient, None), "n", SystemClock())
    lease.node_uid = "u"
    lease._renewed(document)


def lies(document: Json) -> Iterator[Json]:
    """Each with one place that is something else."""
    for path in places(document):
        yield from (with_value(document, path, wrong) for wrong in WRONG if path)


@pytest.mark.parametrize(
    ("document", "use"), [(NODE, use_node), (POD, use_pod), (LEASE, use_lease)], ids=["node", "pod", "lease"]
)
def test_what_passes_the_check_can_be_used(document: Json, use: Callable[[Json], None]) -> None:
    checked(document, "GET x")
    for lie in lies(document):
        try:
            checked(lie, "GET x")
        except ManifestError as error:
            assert str(error).startswith("GET x: the server sends ")  # noqa: PT017  many of them
            continue
        use(lie)


@pytest.mark.parametrize(
    ("part", "wrong", "complaint"),
    [
        ("spec", {"taints": {"key": "a"}}, "something else than a list of objects as `spec.taints`"),
        ("status", {"conditions": 5}, "something else than a list of objects as `status.conditions`"),
        ("status", {"conditions": [{}]}, "something else than a text as `status.conditions[].type`"),
        (
            "status",
            {"conditions": [{"type": "Ready", "status": ["True"]}]},
            "something else than a text or a number as `status.conditions[].status`",
        ),
        (
            "status",
            {"containerStatuses": [{"state": "running"}]},
            "something else than an object as `status.containerStatuses[].state`",
        ),
        (
            "metadata",
            {"name": "n", "deletionGracePeriodSeconds": "5"},
            "something else than a number as `deletionGracePeriodSeconds`",
        ),
    ],
)
def test_the_field_is_named(part: str, wrong: Json, complaint: str) -> None:
    with pytest.raises(ManifestError) as raised:
        checked({**NODE, part: wrong}, "watch")
    assert str(raised.value) == f"watch: the server sends {complaint}"


def test_an_answer_to_a_renewed_lease_that_makes_no_sense_is_told_by_its_field() -> None:
    """It was taken for the lease, and the next renewal failed with Python's words about a list."""

    async def scene(client: KubeClient) -> None:
        lease = registration.NodeLease(client, "n", SystemClock())
        for complaint in ("no object with a name", "something else than an object as `spec`"):
            with pytest.raises(ManifestError, match=f"PUT .*/leases/n: the server sends {complaint}"):
                await lease.renew()

    first = b'{"metadata":{"name":"n","namespace":"kube-node-lease"},"spec":{}}'
    answers = [first, b'{"metadata":[1]}', b'{"metadata":{"name":"n"},"spec":[1]}']
    talk_to_rude([answer(200, body) for body in answers], scene)


class Refusing:
    """An API that takes the statuses of all pods but those of some."""

    def __init__(self, refused: set[str], error: Exception) -> None:
        self.refused = refused
        self.error = error
        self.told: list[str] = []

    async def patch(self, _kind: object, name: str, *_: object, **__: object) -> Json:
        if name in self.refused:
            raise self.error
        self.told.append(name)
        return {}


@pytest.mark.parametrize(
    ("error", "told"), [(ApiError("no", code=422), 19), (KeyError("x"), 19), (UnreachableError("away"), 7)]
)
def test_a_pod_whose_status_is_refused_keeps_none_from_being_reported(error: Exception, told: int) -> None:
    """But those of an API that is away are not tried one after another."""
    names = [f"p{number:02}" for number in range(20)]
    documents = [{"metadata": {**POD["metadata"], "name": name, "uid": name, "annotations": {}}} for name in names]

    class Showing:
        @staticmethod
        def statuses() -> list[PodStatus]:
            return [PodStatus(pod_from({**each, "spec": {}}, "api"), "Running") for each in documents]

    api = Refusing({"p03"}, error)
    reports = PodReports(
        cast(KubeClient, api), cast(Cache, documents), cast(Hosting, Showing), lambda _: False, "x", SystemClock()
    )
    with pytest.raises(type(error)):
        asyncio.run(reports.report())
    assert len(api.told) == told


@pytest.mark.parametrize(
    ("status", "complaint"),
    [
        (b"null", "status: expected `object`, got `null`"),
        (b"[1]", "status: expected `object`, got `array`"),
        (b'{"token":"t"}', "expirationTimestamp"),
        (b'{"token":5,"expirationTimestamp":"x"}', "status: expected `str`, got `int` at `token`"),
        (b'{"token":"t","expirationTimestamp":5}', "status: expected `str`, got `int` at `expirationTimestamp`"),
        (b'{"token":"t","expirationTimestamp":"soon"}', "soon"),
    ],
)
def test_a_token_that_is_none_is_told_and_ends_nothing(status: bytes, complaint: str) -> None:
    """It was an error of Python, which ended the care for the volumes of all pods."""

    async def scene(client: KubeClient) -> None:
        with pytest.raises(ContentError, match="failed to fetch token: ") as raised:
            await ApiObjects(client, SystemClock()).token(TokenOrder("d", "robot", "p", "u", "", 600))
        assert complaint in str(raised.value)

    talk_to_rude([answer(201, b'{"status":%b}' % status)], scene)
