"""Requests over sockets that behave as servers, proxies and networks do."""

from __future__ import annotations

import asyncio
import base64
import gzip
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from jettison.apiserver.access.certificates import ensure_identity
from jettison.apiserver.connections.hangups import until_hung_up
from jettison.errors import ConnectionBroken, InputError, UnreachableError
from jettison.runtimes.kube.http import HttpClient, HttpRequest, read_address

Speak = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Scene = Callable[[str], Awaitable[None]]

GET = HttpRequest("GET", "/x", {"Accept": "application/json"}, seconds=20.0)


def against(speak: Speak, scene: Scene) -> int:
    """Run the scene with the address of a server that speaks so; how many connections there were."""
    connections = 0

    async def counted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        try:
            await speak(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()

    async def staged() -> None:
        server = await asyncio.start_server(counted, "127.0.0.1", 0)
        async with server:
            await scene(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")

    asyncio.run(staged())
    return connections


def saying(*answers: bytes) -> Speak:
    """One after another, each to one request of the same connection."""

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()

    return speak


def answer(body: bytes, *headers: bytes, code: int = 200) -> bytes:
    return b"\r\n".join([b"HTTP/1.1 %d X" % code, b"Content-Length: %d" % len(body), *headers, b"", body])


async def fetch(client: HttpClient, request: HttpRequest = GET) -> bytes:
    response = await client.send(request)
    try:
        return b"".join([chunk async for chunk in response.chunks()])
    finally:
        response.close()


def test_a_connection_that_is_silent_is_asked_whether_it_is_still_there() -> None:
    """A watch may be silent for minutes, and a machine that lost its power does not hang up."""

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        port = writer.get_extra_info("peername")[1]
        for _ in range(1000):
            if has_timer(port):
                break
            await asyncio.sleep(0.01)
        writer.write(answer(b"asked" if has_timer(port) else b"not asked"))
        await writer.drain()

    async def scene(address: str) -> None:
        client = HttpClient(address, None)
        assert await fetch(client) == b"asked"
        await client.close()

    against(speak, scene)


def has_timer(port: int) -> bool:
    """Whether the kernel will ask the other side of the connection from this port of the loopback."""
    found = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    return any(each[1].endswith(f":{port:04X}") and each[5].startswith("02:") for each in found)


def test_to_close_is_to_hang_up_on_requests_under_way() -> None:
    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async def scene(address: str) -> None:
        client, asking_began = HttpClient(address, None), asyncio.get_running_loop().time()
        asking = asyncio.create_task(fetch(client))
        seen = [False]
        while not seen[-1] and asyncio.get_running_loop().time() < asking_began + 20:
            await asyncio.sleep(0.01)
            seen.append(client.is_connected)
        await client.close()
        seen.append(client.is_connected)
        assert seen[-2:] == [True, False]
        with pytest.raises(ConnectionBroken):
            await asking

    against(silent, scene)


def test_one_connection_serves_many_requests_and_interim_answers_are_passed_over() -> None:
    async def scene(address: str) -> None:
        client = HttpClient(address, None)
        assert [await fetch(client) for _ in range(3)] == [b"one", b"two", b"three"]
        await client.close()

    interim = b"HTTP/1.1 100 Continue\r\nX: y\r\n\r\n"
    chunked = b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n3\r\ntwo\r\n0\r\n\r\n"
    assert against(saying(interim + answer(b"one"), chunked, answer(b"three")), scene) == 1


@pytest.mark.parametrize(
    "first",
    [
        answer(b"one", b"Connection: close"),
        b"HTTP/1.1 200 X\r\n\r\none",
        b"HTTP/1.0 200 X\r\nContent-Length: 3\r\n\r\none",
    ],
)
def test_a_connection_that_the_server_ends_is_not_used_again(first: bytes) -> None:
    """The second answer has no length either: its end is the end of the connection."""

    async def scene(address: str) -> None:
        client = HttpClient(address, None)
        assert [await fetch(client), await fetch(client)] == [b"one", b"one"]
        await client.close()

    assert against(saying(first), scene) == 2


def test_an_answer_that_is_not_read_is_not_mistaken_for_the_next() -> None:
    async def scene(address: str) -> None:
        client = HttpClient(address, None)
        response = await client.send(GET)
        response.close()
        assert await fetch(client) == b"x" * 1_000_000
        await client.close()

    assert against(saying(answer(b"x" * 1_000_000), answer(b"x" * 1_000_000)), scene) == 2


def test_a_cancelled_request_gives_its_place_back() -> None:
    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async def scene(address: str) -> None:
        client = HttpClient(address, None)
        for _ in range(70):
            asking = asyncio.create_task(client.send(GET))
            await asyncio.sleep(0)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
        with pytest.raises(UnreachableError, match="did not answer in time"):
            await client.send(GET._replace(seconds=0.05))
        await client.close()

    against(silent, scene)


def test_what_is_compressed_comes_in_small_pieces() -> None:
    """Ten megabytes of nothing are ten kilobytes; no piece of them is larger than what a connection holds."""
    packed = gzip.compress(bytes(10_000_000))

    async def scene(address: str) -> None:
        client = HttpClient(address, None)
        response = await client.send(GET)
        sizes = [len(chunk) async for chunk in response.chunks()]
        response.close()
        assert sum(sizes) == 10_000_000
        assert max(sizes) <= 256 * 1024
        with pytest.raises(ConnectionBroken, match="cannot be decompressed"):
            await fetch(client)
        await client.close()

    against(saying(answer(packed, b"Content-Encoding: gzip"), answer(b"no gzip", b"Content-Encoding: gzip")), scene)


_CHUNKED = b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"", "hung up"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "broke"),
        (b"HTTP/1.1 200 X\r\nContent-Length: 9\r\n\r\nshort", "hung up"),
        (b"HTTP/1.1 200 X\r\nContent-Length: -1\r\n\r\n", "broke"),
        (b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n", "broke"),
        (b"HTTP/1.1 200 X\r\n" + b"X: y\r\n" * 20_000, "larger than 65536 bytes"),
        # Trailers were kept without a bound, and a chunk may say of itself as much as it likes.
        (_CHUNKED + b"1\r\nx\r\n0\r\n" + b"".join(b"X-%d: y\r\n" % each for each in range(60_000)), "larger than"),
        (_CHUNKED + b"1\r\nx\r\n1;" + b"x" * 600_000, "larger than 65536 bytes"),
    ],
)
def test_an_answer_that_is_none_is_a_broken_connection(said: bytes, why: str) -> None:
    async def scene(address: str) -> None:
        client = HttpClient(address, None)
        with pytest.raises(ConnectionBroken, match=why):
            await fetch(client)
        await client.close()

    against(saying(said), scene)


def test_a_server_that_is_not_read_from_is_not_heard_out() -> None:
    """A client that takes nothing holds a quarter of a megabyte, however much there is."""
    sent = 0

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 X\r\nContent-Length: 1000000000\r\n\r\n")
        while True:
            writer.write(bytes(65536))
            await writer.drain()
            sent += 65536

    async def scene(address: str) -> None:
        client = HttpClient(address, None)
        response = await client.send(GET)
        before = -1
        while before != sent:
            before = sent
            await asyncio.sleep(0.2)
        assert sent < 100_000_000
        response.close()
        await client.close()

    against(flood, scene)


def test_a_server_may_switch_to_another_protocol() -> None:
    """What comes with the head belongs to it already; then both sides speak as they like."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nhello")
        while data := await reader.read(100):
            writer.write(data.upper())
        writer.write(b"!")

    async def scene(address: str) -> None:
        client = HttpClient(address, None)
        upgrade = {"Connection": "Upgrade", "Upgrade": "echo"}
        response = await client.send(GET._replace(headers=upgrade, pause=None))
        assert (response.status, response.headers["upgrade"]) == (101, "echo")
        said = b""
        await response.write(b"abc", 20)
        async for chunk in response.chunks():
            said += chunk
            if said.endswith(b"ABC"):
                break
        assert said == b"helloABC"
        response.close()
        await client.close()

    against(echo, scene)


def test_a_server_that_takes_nothing_hears_of_the_end() -> None:
    """Behind the megabytes that the kernel holds for it the end would not arrive."""
    has_heard = asyncio.Event()

    async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
        await until_hung_up(asyncio.Event().wait, writer.get_extra_info("socket"), last_seconds=0)
        has_heard.set()

    async def scene(address: str) -> None:
        client = HttpClient(address, None)
        response = await client.send(GET._replace(headers={"Connection": "Upgrade", "Upgrade": "echo"}, pause=None))
        with pytest.raises(UnreachableError):
            await response.write(bytes(64 * 1024 * 1024), 0.2)
        response.close()
        await client.close()
        await asyncio.wait_for(has_heard.wait(), 30)

    against(deaf, scene)


def test_a_server_that_does_not_switch_is_not_written_to() -> None:
    async def scene(address: str) -> None:
        client = HttpClient(address, None)
        response = await client.send(GET)
        with pytest.raises(ConnectionBroken, match="has not switched"):
            await response.write(b"abc", 20)
        response.close()
        await client.close()

    against(saying(answer(b"no")), scene)


@pytest.mark.parametrize("name", ["Authorization", "User-Agent"])
@pytest.mark.parametrize("value", ["a\r\nX-Remote-User: admin", "a\nb", "nul\0", "grün €"])
def test_a_token_cannot_smuggle_a_header(name: str, value: str) -> None:
    async def scene(address: str) -> None:
        client = HttpClient(address, None)
        with pytest.raises(InputError, match="look at the token"):
            await client.send(GET._replace(headers={name: value}))
        await client.close()

    against(saying(b""), scene)


@pytest.mark.parametrize("server", ["", "x", "ftp://h", "https://", "https://h:99999", "https://[::1", "http:///x"])
def test_what_is_no_address_is_refused_with_what_one_looks_like(server: str) -> None:
    with pytest.raises(InputError, match="is not the address of a server"):
        read_address(server)


def test_an_address_may_have_a_path_and_ipv6() -> None:
    found = read_address("https://[::1]:6443/k8s/clusters/c 1/")
    assert (found.authority, found.prefix) == ("[::1]:6443", "/k8s/clusters/c%201")
    assert read_address("http://host").authority == "host"


async def _through(proxy_reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
    """A proxy's tunnel, both ways until one side ends."""
    upstream_reader, upstream = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")

    async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
        target.close()

    await asyncio.gather(copy(proxy_reader, upstream), copy(upstream_reader, writer), return_exceptions=True)


def test_tls_goes_through_a_proxy_which_learns_nothing_but_the_host(tmp_path: Path) -> None:
    identity = ensure_identity(tmp_path, ["127.0.0.1"])
    server_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_tls.load_cert_chain(identity.chain)
    trusted = ssl.create_default_context(cadata=identity.authority_pem.decode())
    asked: list[bytes] = []

    async def scene() -> None:
        server = await asyncio.start_server(saying(answer(b"secret")), "127.0.0.1", 0, ssl=server_tls)
        port = server.sockets[0].getsockname()[1]

        async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked.append(await reader.readuntil(b"\r\n\r\n"))
            if b"Proxy-Authorization" not in asked[-1]:
                writer.write(b"HTTP/1.1 407 X\r\n\r\n")
                writer.close()
                return
            await _through(reader, writer, port)

        between = await asyncio.start_server(proxy, "127.0.0.1", 0)
        place = f"127.0.0.1:{between.sockets[0].getsockname()[1]}"
        async with server, between:
            client = HttpClient(f"https://127.0.0.1:{port}", trusted, proxy=f"http://user:p%40ss@{place}")
            assert await fetch(client) == b"secret"
            await client.close()
            refused = HttpClient(f"https://127.0.0.1:{port}", trusted, proxy=f"http://{place}")
            with pytest.raises(ConnectionBroken, match=f"the proxy {place} answers 407"):
                await fetch(refused)
        assert asked[0].startswith(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n" % port)
        assert base64.b64encode(b"user:p@ss") in asked[0]

    asyncio.run(scene())


def test_plain_http_through_a_proxy_names_the_whole_address() -> None:
    asked: list[bytes] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer(b"found"))

    async def scene(address: str) -> None:
        client = HttpClient("http://cluster.example:8080/base", None, proxy=address)
        assert await fetch(client) == b"found"
        await client.close()

    against(proxy, scene)
    assert asked[0].startswith(b"GET http://cluster.example:8080/base/x HTTP/1.1\r\nHost: cluster.example:8080\r\n")


def test_the_environment_names_a_proxy_but_not_to_the_machine_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer(b"by proxy"))

    async def scene(address: str) -> None:
        monkeypatch.setenv("http_proxy", address)
        monkeypatch.setenv("no_proxy", "direct.example")
        client = HttpClient("http://cluster.example", None)
        assert await fetch(client) == b"by proxy"
        await client.close()
        assert HttpClient("http://direct.example", None)._proxy is None
        assert HttpClient(address, None)._proxy is None

    against(proxy, scene)
    with pytest.raises(InputError, match="proxy-url `socks5://x` cannot be used"):
        HttpClient("http://cluster.example", None, proxy="socks5://x")
