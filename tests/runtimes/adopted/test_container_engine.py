"""An engine may hang, lie, or be another program: each answer is bounded, and what is wrong is told in one sentence."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from jettison.errors import ObservationError, PodGone, RuntimeFailure, StillRunning, UnreachableError
from jettison.runtimes import workloads
from jettison.runtimes.adopted import container_engine
from jettison.runtimes.adopted.container_engine import ContainerEngine
from jettison.runtimes.adopted.engine_socket import LARGEST_ANSWER
from jettison.runtimes.linux.cgroups.mounts import Hierarchy
from jettison.runtimes.workloads import AdoptedWorkload, LookPace

VERSION = {"Components": [{"Name": "Engine"}]}
NOWHERE = Hierarchy(Path("/nonexistent"), "/", frozenset({"memory"}), is_unified=False)
WEB = AdoptedWorkload("docker", "abc", "web", "docker/abc")


def http(body: object, status: int = 200) -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (status, len(data)) + data


def engine_of(path: Path, **more: Any) -> ContainerEngine:
    return ContainerEngine(path, NOWHERE, frozenset({os.geteuid()}), **{"deadline": 5.0, **more})


def converse(
    tmp_path: Path, ask: Callable[[ContainerEngine], Awaitable[object]], *answers: bytes, **more: Any
) -> object:
    """Ask an engine that answers so, one after another; what it was asked is in `requests`."""
    path, left = tmp_path / "e.sock", list(answers)
    served: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if left:
            writer.write(left.pop(0))
        else:
            await reader.read()
        writer.close()

    async def scenario() -> object:
        server = await asyncio.start_unix_server(
            lambda reader, writer: served.append(asyncio.create_task(serve(reader, writer))), path
        )
        try:
            async with server:
                return await ask(engine_of(path, **more))
        finally:
            # The other end has hung up, and the server may say so, too.
            await asyncio.gather(*served, return_exceptions=True)

    return asyncio.run(scenario())


def test_a_chunked_answer_is_put_together(tmp_path: Path) -> None:
    """So Docker answers longer lists."""
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n[\r\n1\r\n]\r\n0\r\n\r\n"
    assert converse(tmp_path, lambda engine: engine.running(), http(VERSION), chunked) == []


def test_an_answer_without_a_length_ends_with_the_connection(tmp_path: Path) -> None:
    """As HTTP/1.0 has it."""
    assert converse(tmp_path, lambda engine: engine.running(), http(VERSION), b"HTTP/1.0 200 OK\r\n\r\n[]") == []


def test_a_container_that_vanishes_between_list_and_look_is_left_out(tmp_path: Path) -> None:
    """And so is one that has no process."""
    listed = http([{"Id": "a"}, {"Id": "b"}])
    inspected = http({"Id": "b", "State": {"Running": False, "Pid": 0}})
    answers = http(VERSION), listed, http({"message": "No such container"}, 404), inspected
    assert converse(tmp_path, lambda engine: engine.running(), *answers) == []


HOSTILE = {
    "not HTTP": (b"SSH-2.0-OpenSSH\r\n\r\n", "no HTTP"),
    "nothing": (b"", "no HTTP"),
    "a status that is no number": (b"HTTP/1.1 OK\r\n\r\n", "no HTTP"),
    "a length that is none": (b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n", "no HTTP"),
    "a negative length": (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "no HTTP"),
    "more than is announced to be allowed": (
        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (LARGEST_ANSWER + 1),
        "too long",
    ),
    "a head without end": (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20000, "too long"),
    "a chunk without end": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffff\r\n", "too long"),
    "a negative chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n", "too long"),
    "chunks of a byte": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\n[\r\n" * 10_001, "too long"),
    "a million values": (http(b'{"Components":[' + b"{}," * 100_000 + b"{}]}"), "more than 100000 values"),
    "less than was announced": (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n[]", "cut off"),
    "no JSON": (http(b"<html>"), "not an answer of Docker or Podman"),
    "another JSON": (http({"Components": 3}), "not an answer of Docker or Podman"),
    "deep JSON": (http(b"[" * 100_000), "nested more than 100 levels deep"),
    "an error": (http({"message": "server is in flames"}, 500), "status 500: server is in flames"),
    "an error of any bytes": (http(b"\xff" * 999, 503), "status 503"),
}


@pytest.mark.parametrize(("answer", "complaint"), HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_answer_is_one_sentence(tmp_path: Path, answer: bytes, complaint: str) -> None:
    """Never another exception, and never a memory of gigabytes."""
    with pytest.raises(RuntimeFailure) as raised:
        converse(tmp_path, lambda engine: engine.running(), answer)
    assert complaint in str(raised.value)
    assert len(str(raised.value)) < 400


def test_an_endless_answer_is_cut_off(tmp_path: Path) -> None:
    """It says no length, so it is read until it is too long."""
    endless = b"HTTP/1.1 200 OK\r\n\r\n" + b" " * (LARGEST_ANSWER + 10)
    with pytest.raises(UnreachableError, match="too long"):
        converse(tmp_path, lambda engine: engine.running(), endless)


def test_an_engine_that_hangs_is_given_up(tmp_path: Path) -> None:
    """After its deadline."""
    with pytest.raises(UnreachableError, match=r"no answer within 0\.1 s"):
        converse(tmp_path, lambda engine: engine.running(), deadline=0.1)


def test_a_socket_of_another_user_is_not_spoken_to(tmp_path: Path) -> None:
    """It could tell any tale about what runs here, and have it stopped."""

    async def ask(engine: ContainerEngine) -> object:
        return await ContainerEngine(engine.socket.path, NOWHERE, frozenset({12345})).running()

    with pytest.raises(UnreachableError, match=f"belongs to user {os.geteuid()}, which is not trusted"):
        converse(tmp_path, ask, http(VERSION), http([]))


@pytest.mark.parametrize("kind", ["nothing", "a file"])
def test_a_path_that_is_no_socket_is_told(tmp_path: Path, kind: str) -> None:
    """An engine that is not installed, or a typing error."""
    path = tmp_path / "e.sock"
    if kind == "a file":
        path.touch()
    with pytest.raises(UnreachableError, match=r"e\.sock: (no such file|not a socket)"):
        asyncio.run(engine_of(path).running())


@pytest.mark.parametrize(
    ("status", "error"), [(204, None), (304, None), (404, PodGone), (409, StillRunning), (500, StillRunning)]
)
def test_a_stop_says_what_came_of_it(tmp_path: Path, status: int, error: type[Exception] | None) -> None:
    """304 means that it had stopped already."""
    if error is None:
        assert converse(tmp_path, lambda engine: engine.stop(WEB, 1), http(b"", status)) is None
        return
    with pytest.raises(error):
        converse(tmp_path, lambda engine: engine.stop(WEB, 1), http({"message": "no"}, status))


def test_an_observation_error_is_not_an_unreachable_engine(tmp_path: Path) -> None:
    """What answers and cannot be understood is told apart from what does not answer."""
    with pytest.raises(ObservationError):
        converse(tmp_path, lambda engine: engine.running(), http(VERSION), http({"not": "a list"}))


def running(number: int, **more: object) -> bytes:
    return http({"State": {"Running": True, "Pid": number}, "Name": "/web", **more})


@pytest.fixture
def _all_are_containers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each process is in the cgroup of the container that it was asked for."""
    monkeypatch.setattr(container_engine, "container_cgroup", lambda container, _pid, _memory: f"docker/{container}")


@pytest.mark.usefixtures("_all_are_containers")
def test_one_container_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    """It is told of, and so is an id that no container has: it could not be asked about."""
    seen: list[ContainerEngine] = []

    async def look(engine: ContainerEngine) -> list[str]:
        seen.append(engine)
        return [each.id for each in await engine.running()]

    listed = http([{"Id": "a"}, {"Id": "../../x"}, {"Id": "y" * 999}, {"Id": "b"}, {"Id": "c"}])
    answers = http(VERSION), listed, running(1), http({"message": "broken"}, 500), running(1)
    assert converse(tmp_path, look, *answers) == ["a", "c"]
    (complaint,) = seen[0].complaints
    assert complaint.startswith("container `b`: ")
    assert complaint.endswith("status 500: broken")


@pytest.mark.usefixtures("_all_are_containers")
@pytest.mark.parametrize("path", ["/a\0b/c", "etc/passwd", "/" + "x" * 5000, ""])
def test_what_is_no_path_is_not_measured(tmp_path: Path, path: str) -> None:
    """A NUL ended the measuring of all containers."""
    answer = running(1, LogPath=path, GraphDriver={"Data": {"UpperDir": path}})
    answers = http(VERSION), http([{"Id": "a"}]), answer
    (found,) = cast("list[AdoptedWorkload]", converse(tmp_path, lambda engine: engine.running(), *answers))
    assert (found.writable_dir, found.log_dir) == ("", "")


def test_a_directory_that_is_no_path_is_told(tmp_path: Path) -> None:
    """It ended the guard."""
    with pytest.raises(ObservationError, match="its directory is no path"):
        converse(tmp_path, lambda engine: engine.storage(), http({"DockerRootDir": "/a\0b"}))


@pytest.mark.usefixtures("_all_are_containers")
def test_a_look_that_takes_too_long_goes_on_later(tmp_path: Path) -> None:
    """With what was found so far, and says so."""
    seen: list[ContainerEngine] = []

    async def look(engine: ContainerEngine) -> object:
        seen.append(engine)
        return await engine.running()

    assert converse(tmp_path, look, http(VERSION), http([{"Id": "a"}]), pace=LookPace(longest=0.0)) == []
    assert "not known yet" in seen[0].complaints[0]


@pytest.mark.usefixtures("_all_are_containers")
def test_a_container_that_the_engine_cannot_tell_of_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Docker's inspect may hang for one container, with all others well. It is asked about again after a minute."""
    path, asked = tmp_path / "e.sock", list[str]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        what = (await reader.readuntil(b"\r\n\r\n")).decode().split()[1]
        asked.append(what)
        if what == "/containers/hangs/json":
            await reader.read()
        elif what == "/containers/json":
            writer.write(http([{"Id": "a"}, {"Id": "hangs"}, {"Id": "b"}]))
        else:
            writer.write(http(VERSION) if what == "/version" else running(1))
        writer.close()

    async def scenario() -> None:
        async with await asyncio.start_unix_server(serve, path):
            engine = engine_of(path, deadline=0.2, pace=LookPace(longest=0.2, slow=0.1))
            monkeypatch.setattr(engine, "_is_there", lambda _: True)
            assert [each.id for each in await engine.running()] == ["a"]
            hanging, late = engine.complaints
            assert hanging == f"container `hangs`: {path}: no answer within 0.2 s"
            assert "not known yet" in late
            for _ in range(3):
                assert [each.id for each in await engine.running()] == ["a", "b"]
                assert engine.complaints == [hanging]

    asyncio.run(scenario())
    assert asked.count("/containers/hangs/json") == 1


ID = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("cgroup", "wanted"),
    [
        (f"docker/{ID}", f"docker/{ID}"),
        (f"system.slice/docker-{ID}.scope", f"system.slice/docker-{ID}.scope"),
        (f"system.slice/docker-{ID}.scope/init.scope", f"system.slice/docker-{ID}.scope"),
        (f"machine.slice/libpod-{ID}.scope/container", f"machine.slice/libpod-{ID}.scope"),
        (f"x.service/libpod-payload-{ID}", f"x.service/libpod-payload-{ID}"),
        (f"kubepods/burstable/pod1/crio-{ID}", f"kubepods/burstable/pod1/crio-{ID}"),
        (f"{ID}/{ID}", f"{ID}/{ID}"),
        ("user.slice/user-0.slice/session-1.scope", None),
        (f"docker/{ID[1:]}", None),
        ("", None),
        (None, None),
    ],
)
def test_the_cgroup_of_a_container_is_named_after_it(
    monkeypatch: pytest.MonkeyPatch, cgroup: str | None, wanted: str | None
) -> None:
    """What is in another one may be a user's session. systemd in a container has made others below."""
    monkeypatch.setattr(workloads, "cgroup_of", lambda _pid, _memory: cgroup)
    assert workloads.container_cgroup(ID, 7, NOWHERE) == wanted
