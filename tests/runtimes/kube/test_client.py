"""Requests to the real API server; and to a socket that behaves as badly as networks do."""

from __future__ import annotations

import asyncio
import json
import ssl
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509 import load_pem_x509_certificate

from jettison.apiserver.access.certificates import ensure_identity
from jettison.apiserver.access.identity import ServerIdentity
from jettison.errors import ApiError, Conflict, InputError, NotFound, RuntimeFailure
from jettison.runtimes.kube.answers import AnswerReader
from jettison.runtimes.kube.client import DeleteOptions, KubeClient, PatchType, WatchEvent, together
from jettison.runtimes.kube.kinds import BUDGETS, NAMESPACES, NODES, PODS
from jettison.runtimes.kube.kubeconfig import Access, Credentials, ExecPlugin, Overrides, load_access
from tests.live.served import Served
from tests.watching import one_by_one

Scene = Callable[[KubeClient], Awaitable[None]]


def access_to(served: Served, user: str = "admin") -> Access:
    return load_access(Overrides(kubeconfig=str(served.kubeconfig(user))))


def talk(access: Access, scene: Scene) -> None:
    async def staged() -> None:
        async with KubeClient(access) as client:
            await scene(client)

    asyncio.run(staged())


def pod(name: str, **metadata: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "registry.example/app:1"}
    metadata = {"name": name, "namespace": "default", **metadata}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


def test_of_several_requests_none_outlives_the_refusal_of_one(served: Served) -> None:
    """A request that went on after its client had gone would leave its connection to the garbage collector."""

    async def scene(client: KubeClient) -> None:
        watching = client.request("GET", "/api/v1/pods?watch=true&timeoutSeconds=60")
        with pytest.raises(NotFound):
            await together(watching, client.get(PODS, "no-such-pod", "default"))
        assert len(asyncio.all_tasks()) == 1

    talk(access_to(served), scene)


def test_an_object_lives_and_dies(served: Served) -> None:
    async def scene(client: KubeClient) -> None:
        made = await client.create(PODS, pod("life", labels={"a": "b"}), "default")
        assert made["metadata"]["uid"]
        assert (await client.get(PODS, "life", "default"))["metadata"]["labels"] == {"a": "b"}
        patched = await client.patch(PODS, "life", {"metadata": {"labels": {"c": "d"}}}, "default")
        assert patched["metadata"]["labels"] == {"a": "b", "c": "d"}
        patch = [{"op": "remove", "path": "/metadata/labels/a"}]
        patched = await client.patch(PODS, "life", patch, "default", how=PatchType.JSON)
        assert patched["metadata"]["labels"] == {"c": "d"}
        with pytest.raises(Conflict):
            await client.replace(PODS, made)
        patched["metadata"]["annotations"] = {"x": "y"}
        assert (await client.replace(PODS, patched))["metadata"]["annotations"] == {"x": "y"}
        with pytest.raises(Conflict, match="UID in the precondition"):
            await client.delete(PODS, "life", "default", DeleteOptions(uid="other"))
        with pytest.raises(Conflict):
            await client.delete(PODS, "life", "default", DeleteOptions(version="1"))
        await client.delete(PODS, "life", "default", DeleteOptions(grace_seconds=0, uid=made["metadata"]["uid"]))
        with pytest.raises(NotFound, match='pods "life" not found'):
            await client.get(PODS, "life", "default")

    talk(access_to(served), scene)


def test_dry_runs_leave_no_trace(served: Served) -> None:
    async def scene(client: KubeClient) -> None:
        made = await client.create(PODS, pod("dry"), "default")
        await client.patch(PODS, "dry", {"metadata": {"labels": {"c": "d"}}}, "default", is_dry_run=True)
        await client.delete(PODS, "dry", "default", DeleteOptions(is_dry_run=True))
        await client.evict("dry", "default", DeleteOptions(is_dry_run=True))
        assert await client.get(PODS, "dry", "default") == made

    talk(access_to(served), scene)


def test_lists_come_in_pieces_and_selectors_select(served: Served) -> None:
    async def scene(client: KubeClient) -> None:
        for index in range(5):
            await client.create(PODS, pod(f"many-{index}", labels={"odd": str(index % 2)}), "default")
        names = [f"many-{index}" for index in range(5)]
        for chunk in (0, 2, 500):
            listing = await client.list(PODS, "default", labels="odd", chunk=chunk)
            assert [each["metadata"]["name"] for each in listing.items] == names
            assert listing.resource_version
        odd = await client.list(PODS, labels="odd=1", fields="metadata.name!=many-1")
        assert [each["metadata"]["name"] for each in odd.items] == ["many-3"]
        with pytest.raises(ApiError, match="unable to parse requirement") as raised:
            await client.list(PODS, labels="a in")
        assert raised.value.code == 400

    talk(access_to(served), scene)


def test_a_watch_tells_what_happens(served: Served) -> None:
    async def scene(client: KubeClient) -> None:
        since = (await client.list(PODS, "default", labels="watched")).resource_version
        seen: list[tuple[str, str]] = []

        async def look() -> None:
            async for event in one_by_one(client.watch(PODS, since, "default", labels="watched")):
                if event.kind != "BOOKMARK":
                    seen.append((event.kind, event.object["metadata"]["name"]))
                if event.kind == "DELETED":
                    return

        looking = asyncio.create_task(look())
        await client.create(PODS, pod("w", labels={"watched": "yes"}), "default")
        await client.patch(PODS, "w", {"metadata": {"annotations": {"text": "grün\n" * 20_000}}}, "default")
        await client.delete(PODS, "w", "default", DeleteOptions(grace_seconds=0))
        await asyncio.wait_for(looking, 60)
        assert [seen[0], seen[1], seen[-1]] == [("ADDED", "w"), ("MODIFIED", "w"), ("DELETED", "w")]

    talk(access_to(served), scene)


def test_a_watch_from_a_version_that_is_none_is_refused(served: Served) -> None:
    async def scene(client: KubeClient) -> None:
        async def first(since: str) -> WatchEvent:
            async for event in one_by_one(client.watch(PODS, since)):
                return event
            raise AssertionError("the watch ended")

        with pytest.raises(ApiError) as raised:
            await asyncio.wait_for(first("not-a-number"), 60)
        # Kubernetes takes it for its own mistake.
        assert raised.value.code == 500

    talk(access_to(served), scene)


def test_a_budget_that_was_not_counted_yet_asks_for_patience(served: Served) -> None:
    """Ten seconds at a time; the caller hears of each, and may stop waiting whenever it likes."""

    async def scene(client: KubeClient) -> None:
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "patience"}}}
        metadata = {"name": "patience", "namespace": "default"}
        body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}
        await client.create(BUDGETS, body, "default")
        await client.create(PODS, pod("patience", labels={"app": "patience"}), "default")
        status = {"status": {"phase": "Running"}}
        await client.patch(PODS, "patience", status, "default", how=PatchType.MERGE, subresource="status")
        told: list[tuple[int, int]] = []
        asked = asyncio.Event()

        def notice(error: ApiError, wait: int) -> None:
            told.append((error.code, wait))
            asked.set()

        evicting = asyncio.create_task(client.evict("patience", "default", notice=notice))
        await asyncio.wait_for(asked.wait(), 60)
        evicting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await evicting
        assert told == [(429, 10)]

    talk(access_to(served), scene)


def test_the_server_says_which_evictions_it_takes(served: Served) -> None:
    async def scene(client: KubeClient) -> None:
        assert await client.eviction_version() == "policy/v1"

    talk(access_to(served), scene)


def test_a_viewer_is_forbidden_to_write_and_a_stranger_to_come_in(served: Served) -> None:
    async def viewing(client: KubeClient) -> None:
        assert (await client.get(NAMESPACES, "default"))["metadata"]["name"] == "default"
        with pytest.raises(ApiError) as raised:
            await client.create(PODS, pod("no"), "default")
        assert (raised.value.code, raised.value.reason) == (403, "Forbidden")

    async def intruding(client: KubeClient) -> None:
        with pytest.raises(ApiError) as raised:
            await client.list(NODES)
        assert (raised.value.code, raised.value.reason) == (401, "Unauthorized")

    talk(access_to(served, "viewer"), viewing)
    talk(replace(access_to(served), credentials=Credentials(token="forged")), intruding)


def test_a_server_without_the_right_certificate_is_not_believed(served: Served) -> None:
    async def scene(client: KubeClient) -> None:
        why = f"Unable to connect to the server 127.0.0.1:{served.port}: its certificate is not trusted: [^_]+$"
        with pytest.raises(RuntimeFailure, match=why):
            await client.list(NODES)

    async def careless(client: KubeClient) -> None:
        assert (await client.list(NODES)).resource_version

    access = access_to(served)
    talk(replace(access, authority_pem=None), scene)
    talk(replace(access, tls_server_name="example.com"), scene)
    talk(replace(access, authority_pem=None, is_insecure=True), careless)
    with pytest.raises(InputError, match=r"the certificate authority .* it must be certificates in PEM$"):
        KubeClient(replace(access, authority_pem=b"nonsense"))


def test_a_client_certificate_or_key_that_cannot_be_used_is_named(served: Served, tmp_path: Path) -> None:
    # A kubelet keeps both in one file, too.
    both, other = (ensure_identity(tmp_path / each).chain.read_bytes() for each in ("ours", "others"))
    key = both[both.index(b"-----BEGIN PRIVATE") :].partition(b"-----BEGIN CERT")[0]
    locked = load_pem_private_key(key, None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
    )

    def client_with(certificate: bytes, key: bytes) -> None:
        credentials = Credentials(certificate_pem=certificate, key_pem=key)
        KubeClient(replace(access_to(served), credentials=credentials))

    client_with(both, both)
    client_with(both, key)
    for wrong in (b"nonsense", key):
        with pytest.raises(InputError, match=r"the client certificate .* it must be a certificate in PEM$"):
            client_with(wrong, key)
    for wrong in (b"", b"nonsense", other, locked):
        with pytest.raises(InputError, match="the client key cannot be used: it must be that of"):
            client_with(both, wrong)


@asynccontextmanager
async def _picky_server(identity: ServerIdentity, known: Path, *others: ServerIdentity) -> AsyncIterator[int]:
    """It answers 401 to all client certificates but one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity.chain)
    for each in (identity, *others):
        context.load_verify_locations(cadata=each.authority_pem.decode())
    context.verify_mode = ssl.CERT_REQUIRED
    wanted = load_pem_x509_certificate(known.read_bytes()).public_bytes(Encoding.DER)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        is_known = writer.get_extra_info("ssl_object").getpeercert(binary_form=True) == wanted
        with suppress(OSError, asyncio.IncompleteReadError):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(
                    answer(200, b'{"items":[],"metadata":{"resourceVersion":"1"}}') if is_known else answer(401)
                )
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as server:
        yield server.sockets[0].getsockname()[1]


def test_certificates_are_read_again_when_their_files_have_changed(tmp_path: Path) -> None:
    """As with client-go: a node whose certificate is renewed, or whose cluster gets another authority, goes on."""
    first, second = (ensure_identity(tmp_path / each) for each in ("first", "second"))
    kubeconfig, authority, shown = (tmp_path / each for each in ("kubeconfig", "ca.crt", "client.pem"))
    cluster = {"server": "https://127.0.0.1", "certificate-authority": authority.name}
    user = {"client-certificate": shown.name, "client-key": shown.name}
    entries = {"clusters": [{"name": "a", "cluster": cluster}], "users": [{"name": "a", "user": user}]}
    contexts = {"contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}], "current-context": "a"}
    kubeconfig.write_text(json.dumps({**entries, **contexts}))
    authority.write_bytes(first.authority_pem)
    shown.write_bytes(first.client.read_bytes())

    async def scene() -> None:
        async with _picky_server(first, second.client, second) as port:
            server = f"https://127.0.0.1:{port}"
            async with KubeClient(load_access(Overrides(kubeconfig=str(kubeconfig), server=server))) as client:
                shown.write_bytes(b"half of it")
                with pytest.raises(ApiError) as refused:
                    await client.list(NODES)
                assert refused.value.code == 401
                # The connection that is open has shown the old one.
                shown.write_bytes(second.client.read_bytes())
                assert (await client.list(NODES)).items == []

    async def move() -> None:
        async with _picky_server(second, second.client) as port:
            server = f"https://127.0.0.1:{port}"
            async with KubeClient(load_access(Overrides(kubeconfig=str(kubeconfig), server=server))) as client:
                for old in (first.authority_pem, b""):
                    authority.write_bytes(old)
                    with pytest.raises(RuntimeFailure, match="not trusted"):
                        await client.list(NODES)
                authority.write_bytes(second.authority_pem)
                assert (await client.list(NODES)).items == []

    asyncio.run(scene())
    asyncio.run(move())


def test_an_address_that_leads_nowhere_is_named_with_the_reason(served: Served) -> None:
    async def scene(client: KubeClient) -> None:
        with pytest.raises(RuntimeFailure) as raised:
            await client.list(NODES)
        told.append(str(raised.value))

    told: list[str] = []
    for host in ("nowhere.invalid", f"{'x' * 70}.invalid"):
        talk(replace(access_to(served), server=f"https://{host}:6443"), scene)
    assert told[0].startswith("Unable to connect to the server nowhere.invalid:6443: ")
    assert "rrno" not in told[0]
    assert told[1].endswith(": this is no name of a host")


def test_a_token_file_is_read_again_when_the_token_is_no_longer_taken(served: Served, tmp_path: Path) -> None:
    async def scene(client: KubeClient) -> None:
        with pytest.raises(ApiError):
            await client.list(NODES)
        path.write_text(served.token() + "\n")
        assert (await client.list(NODES)).resource_version

    path = tmp_path / "token"
    path.write_text("old")
    talk(replace(access_to(served), credentials=Credentials(token_file=path)), scene)


def test_a_plugin_is_asked_for_a_token(served: Served, tmp_path: Path) -> None:
    program = tmp_path / "plugin"
    program.write_text(
        f"""#!/bin/sh
echo x >> {tmp_path}/runs
test "$FLAVOUR" = sweet || exit 1
printf '{{"status": {{"token": "%s"}}}}' "$1"
"""
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    plugin = ExecPlugin(str(program), "client.authentication.k8s.io/v1", [served.token()])
    sweet = replace_struct(plugin, FLAVOUR="sweet")

    async def scene(client: KubeClient) -> None:
        for _ in range(3):
            assert (await client.list(NODES)).resource_version

    async def sour(client: KubeClient) -> None:
        with pytest.raises(InputError, match="failed with exit code 1"):
            await client.list(NODES)

    access = access_to(served)
    talk(replace(access, credentials=Credentials(plugin=sweet)), scene)
    assert (tmp_path / "runs").read_text() == "x\n"
    talk(replace(access, credentials=Credentials(plugin=plugin)), sour)
    with pytest.raises(InputError, match="exec has apiVersion `v1alpha1`"):
        KubeClient(replace(access, credentials=Credentials(plugin=ExecPlugin("x", "v1alpha1"))))


def replace_struct(plugin: ExecPlugin, **variables: str) -> ExecPlugin:
    """With these variables in its environment."""
    import msgspec

    env = [{"name": name, "value": value} for name, value in variables.items()]
    return msgspec.convert({**msgspec.to_builtins(plugin), "env": env}, ExecPlugin)


async def rude_server(answers: Sequence[bytes]) -> tuple[asyncio.Server, str, list[bytes]]:
    """Gives each connection the next answer and hangs up; an empty one is no answer at all."""
    requests: list[bytes] = []
    left = list(answers)

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(left.pop(0))
        writer.close()

    server = await asyncio.start_server(speak, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    return server, f"http://127.0.0.1:{port}", requests


def answer(code: int, body: bytes = b"{}", *headers: bytes) -> bytes:
    lines = [b"HTTP/1.1 %d X" % code, b"Content-Length: %d" % len(body), b"Connection: close", *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def talk_to_rude(answers: Sequence[bytes], scene: Scene, reader: AnswerReader | None = None) -> list[bytes]:
    async def staged() -> list[bytes]:
        server, address, requests = await rude_server(answers)
        access = Access(address, credentials=Credentials(token="secret"))
        async with server, KubeClient(access, answers=reader) as client:
            await scene(client)
        return requests

    return asyncio.run(staged())


def test_retry_after_is_obeyed_ten_times_and_then_told() -> None:
    async def scene(client: KubeClient) -> None:
        with pytest.raises(ApiError, match="prevented the request from succeeding") as raised:
            await client.evict("p", "default")
        assert (raised.value.code, raised.value.reason) == (503, "ServiceUnavailable")

    requests = talk_to_rude([answer(503, b"busy", b"Retry-After: 0")] * 11, scene)
    assert len(requests) == 11
    assert not any(b"secret" in request for request in requests)


@pytest.mark.parametrize(
    "header", [b"Retry-After: soon", b"Retry-After: -1", b"X: y", b"Retry-After: 3601", b"Retry-After: " + b"9" * 5000]
)
def test_without_a_number_nothing_is_repeated(header: bytes) -> None:
    async def scene(client: KubeClient) -> None:
        with pytest.raises(ApiError):
            await client.get(PODS, "p", "default")

    assert len(talk_to_rude([answer(429, b"{}", header)], scene)) == 1


def test_a_broken_read_is_repeated_and_a_broken_write_is_not() -> None:
    async def reading(client: KubeClient) -> None:
        assert await client.get(PODS, "p", "default") == {"metadata": {"name": "p"}}

    async def writing(client: KubeClient) -> None:
        with pytest.raises(RuntimeFailure, match=r"the connection to the server .* broke"):
            await client.create(PODS, pod("p"), "default")

    assert len(talk_to_rude([b"", answer(200, b'{"metadata":{"name":"p"}}')], reading)) == 2
    assert len(talk_to_rude([b""], writing)) == 1


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"[]", b"<html>", b'{"a":', b"\xff", b"{}", b'{"metadata":null}', b'{"metadata":{"name":5}}'),
        *(b'{"metadata":{"name":"p"},"spec":[]}', b'{"metadata":{"name":"p","labels":"x"}}'),
    ],
)
def test_an_answer_that_is_no_object_is_an_error_of_ours(body: bytes) -> None:
    async def scene(client: KubeClient) -> None:
        with pytest.raises(InputError, match="GET /api/v1/namespaces/default/pods/p"):
            await client.get(PODS, "p", "default")

    talk_to_rude([answer(200, body)], scene)


@pytest.mark.parametrize(
    "body",
    [b"<html>no</html>", b"[]", b'{"kind":"Status","code":"x","reason":1,"details":[],"message":null}', b"\x00" * 999],
)
def test_a_refusal_in_a_strange_form_is_still_a_refusal(body: bytes) -> None:
    async def scene(client: KubeClient) -> None:
        with pytest.raises(ApiError) as raised:
            await client.get(PODS, "p", "default")
        assert raised.value.code == 418
        assert len(str(raised.value)) < 2000

    talk_to_rude([answer(418, body)], scene)


@pytest.mark.parametrize(
    "body", [b'{"items":[1]}', b'{"items":5}', b'{"metadata":[]}', b'{"items":[{"metadata":null}]}', b'{"items":[{}]}']
)
def test_a_list_of_something_else_is_an_error_of_ours(body: bytes) -> None:
    async def scene(client: KubeClient) -> None:
        with pytest.raises(InputError, match="GET /api/v1/namespaces/default/pods"):
            await client.list(PODS, "default")

    talk_to_rude([answer(200, body)], scene)


def test_a_list_that_never_ends_is_given_up() -> None:
    async def scene(client: KubeClient) -> None:
        with pytest.raises(InputError, match="the server sends the same part of the list again"):
            await client.list(PODS, "default")

    page = b'{"metadata":{"continue":"again"},"items":[{"metadata":{"name":"p"}}]}'
    assert len(talk_to_rude([answer(200, page)] * 3, scene)) == 2


def test_an_answer_without_end_is_given_up() -> None:
    reader = AnswerReader()
    reader.largest_object = reader.largest_page = reader.largest_refusal = 10_000

    async def scene(client: KubeClient) -> None:
        with pytest.raises(InputError, match=r"GET .*: the server sends more than 10000 bytes"):
            await client.get(PODS, "p", "default")
        with pytest.raises(InputError, match=r"GET .*: the server sends more than 10000 bytes"):
            await client.list(PODS, "default")
        with pytest.raises(InputError, match="an error: the server sends more than 10000 bytes"):
            await client.get(PODS, "p", "default")
        with pytest.raises(InputError, match="watch: the server sends an event of more than 10000 bytes"):
            await anext(client.watch(PODS))

    endless = b" " * 100_000
    talk_to_rude([answer(status, endless) for status in (200, 200, 500, 200)], scene, reader)
