"""Where an object lives whose kind we know only by name, as owner references have it: discovery says so."""

from __future__ import annotations

from collections.abc import Iterable

from jettison.errors import NotFound
from jettison.runtimes.kube.client import Document, KubeClient
from jettison.runtimes.kube.kinds import Kind


async def read_resources(client: KubeClient, api_version: str) -> list[Document]:
    """What the server has in this group and version; nothing where it does not serve it."""
    group, _, version = api_version.rpartition("/")
    # As a kind without a name: the path, with the text of an owner reference, which may be anything, quoted.
    path = Kind(group, "", version=version).path().rstrip("/")
    try:
        found = await client.request("GET", path)
    except NotFound:
        return []
    return found.get("resources") or []


def plural_of(kind: str, resources: Iterable[Document]) -> str | None:
    """The name in paths of a kind such as `Pod`."""
    names = (each["name"] for each in resources if each.get("kind") == kind)
    return next((name for name in names if "/" not in name), None)


async def find_kind(client: KubeClient, api_version: str, kind: str) -> Kind | None:
    """A kind by its name in references; None where the server does not have it."""
    resources = await read_resources(client, api_version)
    plural = plural_of(kind, resources)
    if plural is None:
        return None
    group, _, version = api_version.rpartition("/")
    is_namespaced = any(each["name"] == plural and each.get("namespaced") for each in resources)
    return Kind(group, plural, is_namespaced, version)
