"""The size of an owner of any kind, read from its `scale` subresource as discovery says where that is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from jettison.controllers.machinery.served_kinds import plural_of, read_resources
from jettison.engine.workloads.owners import OwnerReference, Scale, ScaleFailure
from jettison.errors import ApiError, InputError, NotFound
from jettison.runtimes.kube.client import Document, KubeClient
from jettison.runtimes.kube.kinds import Kind

_SCALE: Final = "scale"
_NO_SCALE: Final = "does not implement the scale subresource"
# Kubernetes always serves these, and so says other things of them than of a kind that it has never heard of. A server
# that does without them has no object of them either.
_ABSENT: Final[Mapping[tuple[str, str], ScaleFailure | None]] = {
    ("v1", "ReplicationController"): None,
    ("batch/v1", "CronJob"): ScaleFailure(f"cronjobs.batch {_NO_SCALE}"),
}


async def read_scales(
    client: KubeClient, owners: Iterable[OwnerReference], namespace: str
) -> dict[OwnerReference, Scale | ScaleFailure | None]:
    """What `Workloads.scales` wants: no entry for a kind that nobody serves, None for an owner that is gone."""
    scales: dict[OwnerReference, Scale | ScaleFailure | None] = {}
    served: dict[str, list[Document]] = {}
    for owner in owners:
        try:
            if owner.api_version not in served:
                served[owner.api_version] = await read_resources(client, owner.api_version)
            resource = plural_of(owner.kind, served[owner.api_version])
            if resource is not None:
                scales[owner] = await _read(client, owner, resource, served[owner.api_version], namespace)
            elif (owner.api_version, owner.kind) in _ABSENT:
                scales[owner] = _ABSENT[owner.api_version, owner.kind]
        except (ApiError, InputError) as error:
            scales[owner] = ScaleFailure(str(error))
    return scales


async def _read(
    client: KubeClient, owner: OwnerReference, plural: str, resources: Iterable[Document], namespace: str
) -> Scale | ScaleFailure | None:
    group, _, version = owner.api_version.rpartition("/")
    if not any(each.get("name") == f"{plural}/{_SCALE}" for each in resources):
        qualified = f"{plural}.{group}" if group else plural
        return ScaleFailure(f"{qualified} {_NO_SCALE}")
    try:
        found = await client.get(Kind(group, plural, version=version), owner.name, namespace, _SCALE)
    except NotFound:
        return None
    return Scale(found["metadata"].get("uid") or "", (found.get("spec") or {}).get("replicas") or 0)
