"""What every namespace has without being asked: the service account `default`, and the certificates of the API.

Pods run as the one, and check the API server with the other (`kube-root-ca.crt`). Both are made again when they are
deleted or, as to the certificates, changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from jettison.controllers.machinery.objects import is_terminating
from jettison.controllers.machinery.reconciler import Reconciler, Surroundings
from jettison.errors import ApiError, NotFound
from jettison.runtimes.kube.cache import Cache, Change
from jettison.runtimes.kube.client import Document
from jettison.runtimes.kube.kinds import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS, Kind

ACCOUNT: Final = "default"
CERTIFICATES: Final = "kube-root-ca.crt"
DESCRIPTION: Final = "kubernetes.io/description"
_USE: Final = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)


class _InEveryNamespace:
    """One object of one name in each namespace that is not being deleted."""

    def __init__(self, around: Surroundings, title: str, kind: Kind, name: str, fields: str = "") -> None:
        self._client = around.client
        self._kind = kind
        self._name = name
        self._namespaces = around.caches.of(NAMESPACES)
        self._objects: Cache = around.caches.of(kind, fields=fields)
        self._reconciler: Reconciler[str] = Reconciler(title, self._reconcile)
        self._reconciler.follow(self._namespaces, _names)
        self._reconciler.follow(self._objects, _namespaces)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._reconciler.run()

    async def _reconcile(self, namespace: str) -> None:
        found = self._namespaces.get(("", namespace))
        if found is None or is_terminating(found):
            return
        known = self._objects.get((namespace, self._name))
        try:
            if known is None:
                new = {"metadata": {"name": self._name, "namespace": namespace}}
                await self._client.create(self._kind, self._filled(new), namespace)
            elif not self._is_right(known):
                await self._client.replace(self._kind, self._filled(known))
        except NotFound:
            return  # the namespace is gone
        except ApiError as error:
            # Made by another one meanwhile, or the namespace is on its way out.
            if error.reason not in ("AlreadyExists", "Forbidden"):
                raise

    def _filled(self, document: Document) -> Document:
        """With all that it must have, and with what it has beside that."""
        return document

    def _is_right(self, known: Document) -> bool:
        del known
        return True


class ServiceAccountController(_InEveryNamespace):
    """`default` in every namespace."""

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around, "service accounts", SERVICE_ACCOUNTS, ACCOUNT)


class RootCertificateController(_InEveryNamespace):
    """`kube-root-ca.crt` in every namespace, with the certificates by which this client knows the server."""

    def __init__(self, around: Surroundings) -> None:
        # Only these: a ConfigMap may have a megabyte.
        super().__init__(around, "certificates of the API", CONFIG_MAPS, CERTIFICATES, f"metadata.name={CERTIFICATES}")
        self._data = {"ca.crt": (around.client.access.authority_pem or b"").decode("ascii", "replace")}

    async def run(self) -> None:
        """A client that trusts the machine's own authorities has none to tell of."""
        if self._data["ca.crt"]:
            await super().run()

    def _filled(self, document: Document) -> Document:
        metadata = document["metadata"]
        annotations = {**(metadata.get("annotations") or {}), DESCRIPTION: _USE}
        return {**document, "metadata": {**metadata, "annotations": annotations}, "data": self._data}

    def _is_right(self, known: Document) -> bool:
        is_described = bool((known["metadata"].get("annotations") or {}).get(DESCRIPTION))
        return is_described and (known.get("data") or {}) == self._data


def _names(change: Change) -> Iterator[str]:
    document = change.new or change.old
    if document is not None:
        yield document["metadata"]["name"]


def _namespaces(change: Change) -> Iterator[str]:
    """Also for one of another name, which costs a look at what is known."""
    document = change.new or change.old
    if document is not None:
        yield document["metadata"].get("namespace") or ""
