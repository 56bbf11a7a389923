"""Files and variables from elsewhere: what is asked for, what is missing, and how files are replaced."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import stat
import tempfile
import tracemalloc
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from jettison.errors import ContentError, ManifestError
from jettison.manifests.files.decoding import convert
from jettison.runtimes import kept_text
from jettison.runtimes.configuration import IssuedToken, NodeConfiguration, ObjectKind, TokenOrder
from jettison.runtimes.host.specs.content import ContentSpec, all_keys, variable_reference, volume_content
from jettison.runtimes.host.specs.pod_documents import EnvFromWire, ValueFromWire, VolumeWire
from jettison.runtimes.host.volumes import content_orders, shown_files
from jettison.runtimes.host.volumes.content import Contents, PodIdentity, is_due
from jettison.runtimes.host.volumes.shown_files import ContentFile
from jettison.runtimes.kept_text import KeptObject, KeptText

OTHERS = {"containerName": "d", "resource": "limits.cpu"}
HOUR = 3600 * 10**9
SECRET, CONFIG_MAP = ObjectKind.SECRET, ObjectKind.CONFIG_MAP


class Clock:
    def __init__(self) -> None:
        self.now = 1_000 * HOUR

    def now_ns(self) -> int:
        return self.now

    def monotonic_ns(self) -> int:
        return self.now

    def steady_ns(self) -> int:
        return self.now


def kept(kind: ObjectKind, found: KeptObject) -> KeptText:
    """As an API answers: the values of a Secret as base64, those of a ConfigMap as texts."""
    binary = {key: base64.b64encode(data).decode() for key, data in (found.binary or found.data).items()}
    if kind is SECRET:
        document = {"data": binary}
    else:
        texts = {key: data.decode() for key, data in found.data.items()}
        document = {"data": texts, "binaryData": binary if found.binary else {}}
    text = KeptText("Secret" if kind is SECRET else "ConfigMap", "an object")
    text.begin()(json.dumps(document).encode())
    return text


class Keeper:
    """Two objects in memory, and tokens that are numbered."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.objects = {
            (SECRET, "s"): KeptObject({"user": b"ann", "password": b"$(user)\xff"}),
            (CONFIG_MAP, "m"): KeptObject({"a.conf": b"A", "b": b"B"}, {"blob": b"\0\1"}),
        }
        self.orders: list[TokenOrder] = []

    async def read(self, kind: ObjectKind, namespace: str, name: str) -> KeptText | None:
        assert namespace == "ns"
        found = self.objects.get((kind, name))
        return None if found is None else kept(kind, found)

    async def token(self, order: TokenOrder) -> IssuedToken:
        self.orders.append(order)
        return IssuedToken(f"t{len(self.orders)}", self._clock.now, self._clock.now + order.seconds * 10**9)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def keeper(clock: Clock) -> Keeper:
    return Keeper(clock)


@pytest.fixture
def contents(clock: Clock, keeper: Keeper) -> Contents:
    document = {"metadata": {"name": "p", "namespace": "ns"}, "spec": {"containers": [{"name": "c"}]}}
    pod = PodIdentity("ns", "p", "u", "robot", "api", document)
    return Contents(pod, NodeConfiguration(api=keeper), "n1", clock)


def content(**volume: Any) -> ContentSpec:
    found = volume_content(convert({"name": "v", **volume}, VolumeWire, "volume"))
    assert found is not None
    return found


def collected(contents: Contents, spec: ContentSpec) -> dict[str, tuple[bytes, int]]:
    """What a new volume shows."""
    with tempfile.TemporaryDirectory() as top:
        data = Path(top, "..data")
        asyncio.run(contents.fill(top, spec, Path(top), None))
        found = [path for path in data.rglob("*") if path.is_file()]
        return {str(each.relative_to(data)): (each.read_bytes(), stat.S_IMODE(each.stat().st_mode)) for each in found}


def test_all_keys_become_files(contents: Contents) -> None:
    assert collected(contents, content(configMap={"name": "m", "defaultMode": 0o600})) == {
        "a.conf": (b"A", 0o600),
        "b": (b"B", 0o600),
        "blob": (b"\0\1", 0o600),
    }


def test_items_choose_name_and_mode(contents: Contents) -> None:
    spec = content(secret={"secretName": "s", "items": [{"key": "user", "path": "user/name", "mode": 0o440}]})
    assert collected(contents, spec) == {"user/name": (b"ann", 0o440)}
    assert spec.is_memory
    assert not content(configMap={"name": "m"}).is_memory


def test_a_projected_volume_shows_all_of_them(contents: Contents, keeper: Keeper) -> None:
    spec = content(
        projected={
            "sources": [
                {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
                {"configMap": {"name": "m", "items": [{"key": "b", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
                {"secret": {"name": "none", "optional": True}},
            ]
        }
    )
    assert collected(contents, spec) == {"token": (b"t1", 0o644), "ca.crt": (b"B", 0o644), "namespace": (b"ns", 0o644)}
    assert keeper.orders == [TokenOrder("ns", "robot", "p", "u", "", 3607)]


def test_a_token_is_asked_for_again_at_four_fifths_of_its_life(
    contents: Contents, clock: Clock, keeper: Keeper
) -> None:
    spec = content(projected={"sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 1000}}]})
    assert collected(contents, spec)["t"][0] == b"t1"
    clock.now += 799 * 10**9
    assert collected(contents, spec)["t"][0] == b"t1"
    clock.now += 10**9
    assert collected(contents, spec)["t"][0] == b"t2"
    # A clock that was put back, and a token of a month.
    clock.now -= 10**9
    assert collected(contents, spec)["t"][0] == b"t3"
    assert is_due(IssuedToken("t", 0, 720 * HOUR), 24 * HOUR)
    assert len(keeper.orders) == 3


@pytest.mark.parametrize(
    ("volume", "why"),
    [
        ({"secret": {"secretName": "none"}}, 'secret "none" not found'),
        ({"configMap": {"name": "none"}}, 'configmap "none" not found'),
        (
            {"configMap": {"name": "m", "items": [{"key": "none", "path": "x"}]}},
            "configmap references non-existent config key: none",
        ),
        (
            {"secret": {"secretName": "s", "items": [{"key": "none", "path": "x"}]}},
            "references non-existent secret key: none",
        ),
        (
            {"downwardAPI": {"items": [{"path": "x", "resourceFieldRef": OTHERS}]}},
            "container d not found",
        ),
    ],
)
def test_what_is_missing_is_named_as_a_kubelet_does(contents: Contents, volume: dict[str, Any], why: str) -> None:
    with pytest.raises(ContentError) as raised:
        collected(contents, content(**volume))
    assert str(raised.value) == why


def test_what_is_optional_may_be_missing(contents: Contents) -> None:
    assert collected(contents, content(secret={"secretName": "none", "optional": True})) == {}
    items = [{"key": "none", "path": "x"}, {"key": "b", "path": "y"}]
    assert list(collected(contents, content(configMap={"name": "m", "items": items, "optional": True}))) == ["y"]


def test_a_volume_has_a_bound(contents: Contents, keeper: Keeper) -> None:
    for number in range(5):
        keeper.objects[SECRET, f"big{number}"] = KeptObject({str(number): b"x" * 2**20})
    sources = [{"secret": {"name": f"big{number}"}} for number in range(5)]
    with pytest.raises(ContentError, match="more than 4194304 bytes or 8000 files"):
        collected(contents, content(projected={"sources": sources}))
    keeper.objects[CONFIG_MAP, "big"] = KeptObject({"x": b"x" * (2**20 + 1)})
    with pytest.raises(ContentError, match=r"^an object: 1048577 bytes of values, at most 1048576 are allowed"):
        collected(contents, content(configMap={"name": "big"}))


@pytest.mark.parametrize("path", ["", "/x", "../x", "a/../b", "..x", "a/..b", "a\0b", "x" * 2000])
def test_no_path_leads_out_of_a_volume(path: str) -> None:
    with pytest.raises(ManifestError):
        content(configMap={"name": "m", "items": [{"key": "a", "path": path}]})
    with pytest.raises(ManifestError):
        content(projected={"sources": [{"serviceAccountToken": {"path": path}}]})


def variables(contents: Contents, env: dict[str, Any], *env_from: dict[str, Any]) -> dict[str, str]:
    references = [
        (name, value if isinstance(value, str) else variable_reference(convert(value, ValueFromWire, "env"), "c"))
        for name, value in env.items()
    ]
    sources = [convert(each, EnvFromWire, "envFrom") for each in env_from]
    return dict(asyncio.run(contents.variables(references, all_keys(sources))))


def test_variables_come_from_everywhere(contents: Contents) -> None:
    found = variables(
        contents,
        {
            "PLAIN": "1",
            "PASSWORD": {"secretKeyRef": {"name": "s", "key": "password"}},
            "B": {"configMapKeyRef": {"name": "m", "key": "b"}},
            "NODE": {"fieldRef": {"fieldPath": "spec.nodeName"}},
            "CPU": {"resourceFieldRef": {"resource": "requests.cpu"}},
            "ABSENT": {"secretKeyRef": {"name": "none", "key": "x", "optional": True}},
        },
        {"prefix": "M_", "configMapRef": {"name": "m"}},
        {"secretRef": {"name": "none", "optional": True}},
    )
    assert found == {
        "M_a.conf": "A",
        "M_b": "B",
        "PLAIN": "1",
        # Bytes that are no text come through, and a dollar stays a dollar.
        "PASSWORD": "$(user)\udcff",
        "B": "B",
        "NODE": "n1",
        "CPU": "0",
    }


@pytest.mark.parametrize(
    ("env", "why"),
    [
        ({"A": {"secretKeyRef": {"name": "none", "key": "k"}}}, 'secret "none" not found'),
        ({"A": {"secretKeyRef": {"name": "s", "key": "k"}}}, "couldn't find key k in Secret ns/s"),
        ({"A": {"configMapKeyRef": {"name": "m", "key": "blob"}}}, "couldn't find key blob in ConfigMap ns/m"),
    ],
)
def test_a_variable_that_is_missing_is_named(contents: Contents, env: dict[str, Any], why: str) -> None:
    with pytest.raises(ContentError) as raised:
        variables(contents, env)
    assert str(raised.value) == why


def test_a_pod_of_an_api_is_told_where_that_is(clock: Clock) -> None:
    for origin, names in (("api", ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"]), ("a.yaml", [])):
        known = NodeConfiguration(server=("10.0.0.1", 6443))
        found = Contents(PodIdentity("ns", "p", "u", "", origin, {}), known, "n1", clock).server_variables()
        assert [name for name, _ in found] == names
        assert [str(value) for _, value in found] == ["10.0.0.1", "6443"][: len(names)]


def test_without_a_keeper_it_is_said_why(clock: Clock) -> None:
    for origin, why in (("api", "has not reached its API yet"), ("a.yaml", "there are no manifest directories")):
        pod = PodIdentity("ns", "p", "u", "", origin, {})
        with pytest.raises(ContentError, match=why):
            collected(Contents(pod, NodeConfiguration(), "n1", clock), content(configMap={"name": "m"}))


def files(**texts: str) -> dict[PurePosixPath, ContentFile]:
    return {PurePosixPath(name.replace("__", "/")): ContentFile(text.encode(), 0o640) for name, text in texts.items()}


def shown(directory: Path) -> dict[str, str]:
    return {entry.name: str(entry.readlink()) for entry in directory.iterdir() if entry.is_symlink()}


def test_files_are_replaced_in_one_step(tmp_path: Path) -> None:
    shown_files.write(tmp_path, files(a="1", sub__b="2"), None)
    assert (tmp_path / "a").read_text() == "1"
    assert (tmp_path / "sub" / "b").read_text() == "2"
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640
    first = (tmp_path / "..data").readlink()
    held = os.open(tmp_path / "..data", os.O_RDONLY)
    shown_files.write(tmp_path, files(a="new", c="3"), None)
    assert (tmp_path / "a").read_text() == "new"
    assert set(shown(tmp_path)) == {"..data", "a", "c"}
    assert shown(tmp_path)["a"] == "..data/a"
    assert (tmp_path / "..data").readlink() != first
    assert not (tmp_path / first).exists()
    os.close(held)


def test_what_an_interrupted_write_left_is_cleared_away(tmp_path: Path) -> None:
    shown_files.write(tmp_path, files(a="1"), None)
    half = tmp_path / "..0123456789abcdef"
    half.mkdir()
    (half / "a").write_text("half")
    (tmp_path / "..data_tmp").symlink_to("nowhere")
    shown_files.write(tmp_path, files(a="2"), None)
    assert not half.exists()
    assert [entry.name for entry in tmp_path.iterdir() if not entry.name.startswith("..")] == ["a"]
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another group, which takes root")
def test_a_link_that_a_pod_has_left_there_is_removed_alone(tmp_path: Path) -> None:
    """Where nothing is mounted, a pod with the agent's user may write in its volumes."""
    precious, volume = tmp_path / "precious", tmp_path / "volume"
    for path in (precious / "below", volume):
        path.mkdir(parents=True)
    (precious / "file").write_text("x")
    (volume / "..0123456789abcdef").symlink_to(precious)
    shown_files.write(volume, files(a="1"), None)
    assert sorted(path.name for path in precious.iterdir()) == ["below", "file"]
    assert not (volume / "..0123456789abcdef").is_symlink()


def test_a_group_can_read_them(tmp_path: Path) -> None:
    shown_files.write(tmp_path, files(a="1"), 4321)
    found = (tmp_path / "a").stat()
    assert (found.st_gid, stat.S_IMODE(found.st_mode)) == (4321, 0o640)
    assert (tmp_path / "..data").stat().st_gid == 4321


def test_files_that_are_the_same_are_written_once(contents: Contents, keeper: Keeper, tmp_path: Path) -> None:
    spec, written = content(configMap={"name": "m", "items": [{"key": "a", "path": "a"}]}), []
    for number, text in enumerate((b"A", b"A", b"other", b"other")):
        # What is not shown may differ.
        keeper.objects[CONFIG_MAP, "m"] = KeptObject({"a": text, "b": str(number // 2).encode() * number})
        asyncio.run(contents.fill("v", spec, tmp_path, None))
        written.append(((tmp_path / "a").read_bytes(), (tmp_path / "..data").readlink()))
    assert [text for text, _ in written] == [b"A", b"A", b"other", b"other"]
    assert [written[0] == written[1], written[1][1] == written[2][1], written[2] == written[3]] == [True, False, True]


def refuse_here(*_: object) -> KeptObject:
    raise AssertionError("taken apart in the agent")


def test_a_large_object_is_taken_apart_in_another_process(
    contents: Contents, keeper: Keeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_text, "take_apart", refuse_here)
    keeper.objects[SECRET, "large"] = KeptObject({"text": b"x" * 2**19, "few": b"\xff$(A)"})
    keeper.objects[CONFIG_MAP, "many"] = KeptObject({f"k{number}": b"" for number in range(1500)})
    optional = {"name": "none", "optional": True}
    sources = [{"secret": {"name": "large"}}, {"secret": optional}, {"configMap": {"name": "many"}}]
    asyncio.run(contents.fill("v", content(projected={"sources": sources}), tmp_path, None))
    assert ((tmp_path / "text").stat().st_size, (tmp_path / "few").read_bytes()) == (2**19, b"\xff$(A)")
    assert (tmp_path / "k1499").read_bytes() == b""
    few = {"secretKeyRef": {"name": "large", "key": "few"}}
    absent = {"secretKeyRef": {"name": "large", "key": "none", "optional": True}}
    assert variables(contents, {"A": "1", "B": few, "C": absent}) == {"A": "1", "B": "\udcff$(A)"}
    with pytest.raises(ContentError, match="couldn't find key none in Secret ns/large"):
        variables(contents, {"B": {"secretKeyRef": {"name": "large", "key": "none"}}})
    for name in ("secretRef", "configMapRef"):
        with pytest.raises(ContentError, match="more than 1000 variables or 262144 bytes in the environment"):
            variables(contents, {}, {name: {"name": {"secretRef": "large", "configMapRef": "many"}[name]}})


def test_a_large_object_that_has_not_changed_takes_no_process(
    contents: Contents, keeper: Keeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper.objects[CONFIG_MAP, "large"] = KeptObject({"text": b"x" * 2**20})
    spec = content(configMap={"name": "large"})
    asyncio.run(contents.fill("v", spec, tmp_path, None))
    with monkeypatch.context() as patched:
        patched.setattr(content_orders, "Aside", refuse_here)
        asyncio.run(contents.fill("v", spec, tmp_path, None))
    keeper.objects[CONFIG_MAP, "large"] = KeptObject({"text": b"y" * 2**20})
    asyncio.run(contents.fill("v", spec, tmp_path, None))
    assert (tmp_path / "text").read_bytes() == b"y" * 2**20


def test_what_the_child_cannot_write_or_read_is_told(contents: Contents, keeper: Keeper, tmp_path: Path) -> None:
    keeper.objects[CONFIG_MAP, "large"] = KeptObject({"text": b"x" * 2**20})
    with pytest.raises(ContentError, match="no such file or directory"):
        asyncio.run(contents.fill("v", content(configMap={"name": "large"}), tmp_path / "gone", None))
    keeper.objects[CONFIG_MAP, "large"] = KeptObject({"a/b": b"x" * 2**19})
    with pytest.raises(ContentError, match=r"^an object: data: key `a/b` is not made of"):
        asyncio.run(contents.fill("v", content(configMap={"name": "large"}), tmp_path, None))


def test_a_large_object_costs_the_agent_no_memory(
    contents: Contents, keeper: Keeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the agent would hold in memory and do in its loop, measured where it was done before: 4 MB."""
    text = kept(CONFIG_MAP, KeptObject({f"k{number}": b"x" * 1000 for number in range(1000)}))

    async def read(*_: object) -> KeptText:
        return text

    monkeypatch.setattr(keeper, "read", read)
    spec = content(configMap={"name": "large"})
    tracemalloc.start()
    try:
        asyncio.run(contents.fill("v", spec, tmp_path, None))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(list((tmp_path / "..data").iterdir())) == 1000
    assert peak < 300_000
