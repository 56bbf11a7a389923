"""Every namespace has its `default` account and the certificates of the API, again when they are taken away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jettison.controllers.accounts import ACCOUNT, CERTIFICATES, DESCRIPTION
from jettison.errors import NotFound
from jettison.runtimes.kube.client import KubeClient
from jettison.runtimes.kube.kinds import CONFIG_MAPS, SERVICE_ACCOUNTS, Kind
from tests.controllers.staging import controlled, until
from tests.maintenance.playground import Playground, play

CONTROLLERS = ("serviceaccount-controller", "root-ca-certificate-publisher-controller")


async def found(client: KubeClient, kind: Kind, name: str, namespace: str) -> dict[str, Any]:
    try:
        return await client.get(kind, name, namespace)
    except NotFound:
        return {}


def test_both_are_made_and_kept(kubeconfig: Path) -> None:
    async def scene(ground: Playground) -> None:
        async with controlled(ground.client, *CONTROLLERS):
            client, namespace = ground.client, ground.namespace

            async def account() -> dict[str, Any]:
                return await found(client, SERVICE_ACCOUNTS, ACCOUNT, namespace)

            async def certificates() -> str:
                known = await found(client, CONFIG_MAPS, CERTIFICATES, namespace)
                text: str = (known.get("data") or {}).get("ca.crt", "")
                is_described = bool(known and known["metadata"].get("annotations", {}).get(DESCRIPTION))
                return text if is_described and "BEGIN CERTIFICATE" in text else ""

            first = await until(account)
            assert (await until(certificates)).encode() == client.access.authority_pem
            await client.delete(SERVICE_ACCOUNTS, ACCOUNT, namespace)

            async def another() -> bool:
                now = await account()
                return bool(now) and now["metadata"]["uid"] != first["metadata"]["uid"]

            assert await until(another)
            await client.patch(CONFIG_MAPS, CERTIFICATES, {"data": {"ca.crt": "forged"}}, namespace)
            assert await until(certificates)
            await client.patch(CONFIG_MAPS, CERTIFICATES, {"metadata": {"annotations": None}}, namespace)
            assert await until(certificates)

    play(kubeconfig, scene)
