"""A node's serving certificate: asked for, taken, kept and renewed, with real keys, on an API in a few lines."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from jettison import events
from jettison.clock import HeldClock, Stamp
from jettison.errors import ApiError, NotFound
from jettison.events import Fact
from jettison.membership.serving_certificate import ServingCertificate, ServingPort
from jettison.node.kubelet.certificate import IssuedCertificates
from jettison.runtimes.kube.client import Document, KubeClient
from jettison.runtimes.kube.kinds import NODES

ANNOTATION, OWN = "jettison.dev/serving-certificate", "our own"
DAY_NS = 86_400 * 10**9
NAMES = ("n1", "192.0.2.7")


class _Api(KubeClient):
    """A Node and requests for certificates, which an approver decides on as the test says."""

    def __init__(self) -> None:
        self.node: Document = {"metadata": {"name": "n1", "annotations": {ANNOTATION: OWN}}}
        self.requests: dict[str, Document] = {}
        self.serves_requests = True
        self.refusal = ""
        self.made = 0

    async def request(self, *_: Any, **__: Any) -> Document:
        if not self.serves_requests:
            raise NotFound("the server could not find the requested resource", code=404)
        return {}

    async def get(self, kind: Any, name: str, *_: Any, **__: Any) -> Document:
        if kind is NODES:
            return self.node
        if name not in self.requests:
            raise NotFound(f'certificatesigningrequests "{name}" not found', code=404)
        return self.requests[name]

    async def create(self, kind: Any, body: Any, *_: Any, **__: Any) -> Any:
        del kind
        if self.refusal:
            raise ApiError(self.refusal, code=403)
        self.made += 1
        body["metadata"]["name"] = f"csr-{self.made}"
        self.requests[f"csr-{self.made}"] = body
        return body

    async def patch(self, kind: Any, name: str, body: Any, *_: Any, **__: Any) -> Document:
        assert (kind, name) == (NODES, "n1")
        for key, value in body["metadata"]["annotations"].items():
            assert value is None
            self.node["metadata"]["annotations"].pop(key, None)
        return self.node

    @property
    def last(self) -> Document:
        return self.requests[f"csr-{self.made}"]

    def issue(self, **changed: Any) -> None:
        """Sign the last request."""
        self.last["status"] = {"certificate": base64.b64encode(signed(self.last, **changed)).decode()}


def asked_for(request: Document) -> x509.CertificateSigningRequest:
    return x509.load_pem_x509_csr(base64.b64decode(request["spec"]["request"]))


def signed(request: Document, names: tuple[x509.GeneralName, ...] | None = None, *, other_key: bool = False) -> bytes:
    """For ten days from now."""
    wanted, authority = asked_for(request), ec.generate_private_key(ec.SECP256R1())
    alternatives = wanted.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    begins = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder(not_valid_before=begins, not_valid_after=begins + timedelta(days=10))
        .subject_name(wanted.subject)
        .issuer_name(wanted.subject)
        .serial_number(1)
        .public_key(authority.public_key() if other_key else wanted.public_key())
        .add_extension(alternatives if names is None else x509.SubjectAlternativeName(names), critical=False)
    )
    return builder.sign(authority, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


class _Scene:
    def __init__(self, folder: Path) -> None:
        self.api = _Api()
        self.clock = HeldClock(Stamp(round(datetime.now(UTC).timestamp()) * 10**9, 0, 0))
        self.taken: list[bytes] = []
        self.said: list[Fact] = []
        self._folder = folder
        self.begin()

    def begin(self) -> None:
        """As an agent that starts."""
        certificates = IssuedCertificates(self._folder / "serving.pem", NAMES)
        port = ServingPort(ANNOTATION, OWN, certificates, self.taken.append)
        self.certificate = ServingCertificate(self.api, "n1", port, self.said.append, self.clock)

    def pass_days(self, days: float) -> None:
        self.clock.stamp = self.clock.stamp._replace(wall_ns=self.clock.now_ns() + round(days * DAY_NS))

    async def asked(self) -> float:
        """Until a request is made; what it waits for then."""
        assert await self.certificate.look() == 0
        return await self.certificate.look()

    @property
    def failures(self) -> list[str]:
        return [fact.why for fact in self.said if isinstance(fact, events.ActionFailed)]


def play(folder: Path, scenario: Callable[[_Scene], Awaitable[None]]) -> None:
    async def run() -> None:
        await scenario(_Scene(folder))

    asyncio.run(run())


def test_it_is_asked_for_as_a_kubelet_asks_taken_kept_and_renewed(tmp_path: Path) -> None:
    async def scenario(scene: _Scene) -> None:
        api, certificate = scene.api, scene.certificate
        assert await scene.asked() == 1
        spec, wanted = api.last["spec"], asked_for(api.last)
        assert (spec["signerName"], spec["usages"]) == (
            "kubernetes.io/kubelet-serving",
            ["digital signature", "server auth"],
        )
        subject = {each.oid: each.value for each in wanted.subject}
        assert subject == {NameOID.ORGANIZATION_NAME: "system:nodes", NameOID.COMMON_NAME: "system:node:n1"}
        alternatives = wanted.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert [str(each.value) for each in alternatives] == list(NAMES)
        assert [await certificate.look() for _ in range(6)] == [2, 4, 8, 16, 30, 30]
        assert (scene.taken, api.node["metadata"]["annotations"]) == ([], {ANNOTATION: OWN})

        api.issue()
        assert await certificate.look() == 0
        assert api.node["metadata"]["annotations"] == {}
        (chain,) = scene.taken
        assert b"PRIVATE KEY" in chain
        assert (tmp_path / "serving.pem").stat().st_mode & 0o777 == 0o600
        scene.pass_days(6.9)
        assert await certificate.look() > 0
        scene.pass_days(2.2)
        await certificate.look()
        assert (api.made, scene.failures) == (2, [])

        # Another start, whose Node names its own certificate again.
        api.node["metadata"]["annotations"] = {ANNOTATION: OWN}
        scene.pass_days(-9)
        scene.begin()
        assert await scene.certificate.look() == 0
        assert (scene.taken[1], api.node["metadata"]["annotations"], api.made) == (chain, {}, 2)

    play(tmp_path, scenario)


def test_the_annotation_is_all_where_the_api_has_no_such_requests(tmp_path: Path) -> None:
    async def scenario(scene: _Scene) -> None:
        scene.api.serves_requests = False
        assert await scene.asked() == 3600
        assert (scene.api.made, scene.failures, scene.api.node["metadata"]["annotations"]) == (0, [], {ANNOTATION: OWN})

    play(tmp_path, scenario)


def _deny(api: _Api) -> None:
    api.last["status"] = {"conditions": [{"type": "Denied", "message": "not this one"}]}


@pytest.mark.parametrize(
    ("decide", "said"),
    [
        (_deny, "the request csr-1 is denied: not this one"),
        (lambda api: api.requests.clear(), "the request csr-1 is gone"),
        (lambda api: api.issue(other_key=True), "it is not for the key that was asked with"),
        (lambda api: api.issue(names=(x509.DNSName("n1"),)), "it is not for 192.0.2.7"),
        (lambda api: api.last.update(status={"certificate": "%"}), "a certificate that is not base64"),
    ],
)
def test_what_cannot_be_used_is_said_and_asked_for_later(
    tmp_path: Path, decide: Callable[[_Api], None], said: str
) -> None:
    async def scenario(scene: _Scene) -> None:
        await scene.asked()
        decide(scene.api)
        assert 32 <= await scene.certificate.look() <= 36
        (failure,) = scene.failures
        assert failure.endswith(said)
        assert scene.taken == []
        assert scene.api.node["metadata"]["annotations"] == {ANNOTATION: OWN}
        assert not (tmp_path / "serving.pem").exists()

    play(tmp_path, scenario)


def test_pauses_between_refused_requests_grow_to_an_hour(tmp_path: Path) -> None:
    async def scenario(scene: _Scene) -> None:
        scene.api.refusal = "forbidden"
        pauses = [await scene.asked(), *[await scene.certificate.look() for _ in range(8)]]
        assert pauses[0] < 36
        assert 3600 <= pauses[-1] <= 3960
        assert set(scene.failures) == {"forbidden"}

    play(tmp_path, scenario)
