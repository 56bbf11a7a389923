"""What an API sends costs the event loop of an agent little at a time, whatever it is."""

from __future__ import annotations

import asyncio
import json
import random
import tracemalloc
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

import msgspec
import pytest

from jettison.errors import ManifestError
from jettison.manifests.files import bounds, decoding
from jettison.runtimes.kube import bounded_answers
from jettison.runtimes.kube.answers import ToldEvents
from jettison.runtimes.kube.bounded_answers import AT_ONCE, LARGEST_NOTES, SLICE, SMALL, BoundedAnswers, Splitter
from jettison.runtimes.kube.client import KubeClient
from jettison.runtimes.kube.http import HttpResponse
from jettison.runtimes.kube.kinds import PODS
from tests.runtimes.kube.test_client import answer, talk_to_rude

Json = dict[str, Any]
CHUNK = 65_536


def pod(name: str = "p", spec: Json | None = None, **metadata: Any) -> Json:
    """In the order in which Go writes it."""
    identity = {"name": name, "namespace": "default", "uid": f"u-{name}", "resourceVersion": "7", **metadata}
    containers = {"containers": [{"name": "main", "command": ["x"]}]}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": identity,
        "spec": spec or containers,
        "status": {"phase": "Running"},
    }


def maps(size: int) -> list[Json]:
    """As much to decode as fits into so many bytes."""
    return [{"k": {}}] * (size // 9)


async def stream(chunks: Iterable[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


def response(text: bytes, chunk: int = CHUNK) -> HttpResponse:
    return HttpResponse(200, {}, stream(text[at : at + chunk] for at in range(0, len(text), chunk)))


def listing(*items: Json, chunk: int = CHUNK) -> tuple[list[Json], Json]:
    text = json.dumps(
        {"kind": "PodList", "items": items, "metadata": {"resourceVersion": "9", "x": {"y": [1]}}}
    ).encode()
    page = asyncio.run(BoundedAnswers().page(response(text, chunk), "GET /pods"))
    return [unweighed(each) for each in page.items], page.metadata


def unweighed(document: Json) -> Json:
    """As the server has sent it."""
    return {key: value for key, value in document.items() if key != bounds.WEIGHT}


def watched(*events: Json, chunk: int = CHUNK) -> ToldEvents:
    async def watch() -> ToldEvents:
        text = b"".join(json.dumps(event).encode() + b"\n" for event in events)
        told = [each async for some in BoundedAnswers().events(response(text, chunk)) for each in some]
        return [(kind, unweighed(document)) for kind, document in told]

    return asyncio.run(watch())


def answered(document: Any, chunk: int = CHUNK) -> Json:
    return asyncio.run(BoundedAnswers().document(response(json.dumps(document).encode(), chunk), "GET /pods/p"))


LARGE_NOTE = json.dumps([{"k": number} for number in range(18_000)])
ORDINARY = {
    "plain": pod(),
    "texts": pod(labels={"a": 'quote " and \\ and ]}{[', "b": "\\", "c": '\\"', "ü": "☃\n\t"}),
    "hundreds of variables": pod(spec={"containers": [{"env": [{"name": f"V{n}", "value": ","} for n in range(500)]}]}),
    "a short note": pod(annotations={"team": "a"}),
}


@pytest.mark.parametrize("chunk", [1, 7, 4096, CHUNK])
@pytest.mark.parametrize("document", ORDINARY.values(), ids=ORDINARY)
def test_an_ordinary_object_comes_through_whole(document: Json, chunk: int) -> None:
    assert answered(document, chunk) == document
    assert listing(document, pod("q"), chunk=chunk) == (
        [document, pod("q")],
        {"resourceVersion": "9", "x": {"y": [1]}},
    )
    assert watched({"type": "ADDED", "object": document}, {"type": "DELETED", "object": pod("q")}, chunk=chunk) == [
        ("ADDED", document),
        ("DELETED", pod("q")),
    ]


@pytest.mark.parametrize(
    "spec",
    [
        {"a": maps(7000)},
        {"a": [[]] * 2000},
        {f"k{number}": number for number in range(1000, 3000)},
        {"a": ["x"] * 2000},
        {"a": "x" * 100_000},
    ],
    ids=["small maps", "lists", "keys", "texts", "a long text"],
)
def test_an_object_says_what_it_takes(spec: Json) -> None:
    """About: never less than half of it, nor more than ten times as much."""
    text = json.dumps({"items": [pod(spec={"containers": [], **spec})]}, separators=(",", ":")).encode()
    (found,) = asyncio.run(BoundedAnswers().page(response(text), "GET /pods")).items
    tracemalloc.start()
    try:
        kept = msgspec.json.decode(text)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept
    assert taken / 2 <= found[bounds.WEIGHT] <= 10 * taken


def test_objects_that_take_too_much_together_are_refused() -> None:
    """In a list, however few bytes each of its parts has."""
    reader = BoundedAnswers()
    reader.most_weight = 500_000
    heavy = [pod(f"p{number}", spec={"a": maps(7000)}) for number in range(3)]
    pages = [
        json.dumps({"items": [each], "metadata": {"continue": f"c{at}"} if at < 2 else {}}).encode()
        for at, each in enumerate(heavy)
    ]

    async def scene(client: KubeClient) -> None:
        with pytest.raises(ManifestError, match="more than 5000 objects or 500000 bytes of memory"):
            await client.list(PODS)

    assert 1 < len(talk_to_rude([answer(200, page) for page in pages], scene, reader)) <= 3


def test_what_no_node_needs_is_left_out_and_the_pod_runs() -> None:
    """Up to 256 KiB of annotations, and managedFields for every field: that is a pod of a real cluster."""
    fields: Json = {f'k:{{"name":"V{n}"}}': {".": {}, "f:name": {}, "f:value": {}} for n in range(1000)}
    notes = {"long": LARGE_NOTE, "team": "a", "other": "b" * 100}
    variables = [{"name": f"V{n}", "value": "x" * 50} for n in range(700)]
    large = pod(spec={"containers": [{"name": "main", "env": variables}]}, annotations=notes)
    large["metadata"]["managedFields"] = [{"fieldsV1": fields}]
    assert len(json.dumps(large)) > 350_000
    assert len(LARGE_NOTE) > 3 * LARGEST_NOTES
    (found,), _ = listing(large)
    assert bounds.REFUSED not in found
    assert found["metadata"]["annotations"] == {"team": "a", "other": "b" * 100}
    assert "managedFields" not in found["metadata"]
    assert found["spec"] == large["spec"]


REFUSED = {
    "values": (
        pod(spec={"tolerations": maps(30_000), "containers": [{"name": "main"}]}),
        "spec: more than 4000 values",
    ),
    "values of all": (pod(spec={"tolerations": maps(60_000)}), "more than 16000 values"),
    "bytes": (pod(spec={"containers": [{"name": "main", "args": ["x" * 300_000]}]}), "spec: more than 262144 bytes"),
    "bytes of all": (pod(spec={"containers": [{"args": ["x" * 1_500_000]}]}), "more than 524288 bytes"),
    "managed fields": (pod(managedFields=maps(300_000)), "more than 16000 values"),
    "labels": (pod(labels={f"l{n}": "" for n in range(5000)}), "metadata.labels: more than 4000 values"),
    "annotations": (pod(annotations={f"a{n}": "" for n in range(5000)}), "annotations: more than 4000 values"),
    "memory": (
        pod(spec={"containers": [{"args": ["x" * 200_000 + "\N{GRINNING FACE}"]}]}),
        "spec: takes more than 300000 bytes of memory",
    ),
    "status": ({**pod(), "status": {"conditions": maps(30_000)}}, "status: more than 4000 values"),
    "fields": ({**pod(), **{f"f{n}": 1 for n in range(100)}}, "more than 64 fields"),
    "escapes": (pod(spec={"containers": [{"args": ["\n" * 200_000]}]}), "spec: more than 262144 bytes"),
    "depth": (pod(managedFields=json.loads("[" * 900 + "]" * 900)), ""),
}


@pytest.mark.parametrize(("document", "why"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("chunk", [1000, CHUNK])
def test_of_an_object_that_is_too_large_the_name_and_the_reason_are_left(document: Json, why: str, chunk: int) -> None:
    """The objects around it are not harmed."""
    document["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    document["metadata"] = {key: document["metadata"][key] for key in sorted(document["metadata"], key=_go_order)}
    told = [
        each for _, each in watched(*({"type": "ADDED", "object": each} for each in (pod("a"), document, pod("b"))))
    ]
    for found in (listing(pod("a"), document, pod("b"), chunk=chunk)[0], told):
        assert [each["metadata"]["name"] for each in found] == ["a", "p", "b"]
        assert found[0] == pod("a")
        assert found[2] == pod("b")
        if why:
            assert why in found[1][bounds.REFUSED]
            assert found[1]["metadata"]["uid"] == "u-p"
            assert found[1]["metadata"]["deletionTimestamp"]
            assert len(json.dumps(found[1])) < 5000


def _go_order(key: str) -> int:
    return key in ("labels", "annotations", "managedFields")


def test_the_containers_of_a_refused_pod_are_known_where_it_can_be() -> None:
    (found,), _ = listing(REFUSED["values"][0])
    assert found["spec"] == {"containers": [{"name": "main"}]}
    assert found["status"] == {"phase": "Running"}


def test_an_api_cannot_refuse_a_pod_by_a_field() -> None:
    (found,), _ = listing({**pod(), bounds.REFUSED: "a lie"})
    assert bounds.REFUSED not in found


def test_what_does_not_say_its_name_is_left_out() -> None:
    nameless = {"metadata": {"labels": {"x": "y" * 600_000}, "name": "p"}, "spec": {}}
    assert listing(pod("a"), nameless)[0] == [pod("a")]
    with pytest.raises(ManifestError, match="more than 524288 bytes"):
        answered(nameless)


@pytest.mark.parametrize("body", [b"", b"[]", b"7", b"{", b'{"a":', b"[" * 20_000, b'"' + b"x" * 20_000])
def test_an_answer_that_is_no_object_is_an_error_of_ours(body: bytes) -> None:
    with pytest.raises(ManifestError):
        asyncio.run(BoundedAnswers().document(response(body), "GET /x"))


def test_a_list_that_is_large_without_its_objects_is_refused() -> None:
    with pytest.raises(ManifestError, match="without its objects"):
        asyncio.run(BoundedAnswers().page(response(b'{"metadata":{"x":"' + b"x" * 99_999 + b'"},"items":[]}'), "list"))


def test_a_refusal_of_megabytes_is_read_in_part() -> None:
    error = asyncio.run(BoundedAnswers().refusal(HttpResponse(500, {}, stream([b"x" * CHUNK] * 100))))
    assert error.code == 500


def random_text(draw: random.Random, size: int) -> bytes:
    """Brackets, quotes, backslashes and commas in any order, and now and then a real object."""
    pieces = [bytes(draw.choice(b'{}[]",\\:\nx') for _ in range(draw.randint(1, 40))) for _ in range(size)]
    pieces += [json.dumps(draw.choice([*ORDINARY.values(), 1, "a", [[]]])).encode() for _ in range(3)]
    draw.shuffle(pieces)
    return b"".join(pieces)


@pytest.mark.parametrize("seed", range(20))
def test_no_text_breaks_it_and_chunks_do_not_matter(seed: int) -> None:
    draw = random.Random(seed)
    text = random_text(draw, 30)
    for is_list in (False, True):
        found = []
        for chunk in (1, 13, len(text)):
            splitter = Splitter(is_list=is_list)
            chunks = (text[at : at + chunk] for at in range(0, len(text), chunk))
            found.append([piece for each in chunks for piece in splitter.take(each) if piece is not None])
        assert found[0] == found[1] == found[2]


# What one turn of the event loop does: no clock is looked at, the work is counted.


class Work:
    """Bytes that are decoded, and texts that are looked through, between two turns of the event loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.decoded = self.most_decoded = 0
        whole = decoding.decode

        def decode(decoder: msgspec.json.Decoder[Any], data: bytes, source: str) -> Any:
            # What is stepped over costs a hundredth of what is decoded.
            is_stepped_over = decoder in (bounded_answers._PARTS, bounded_answers._EVENT)
            self.decoded += len(data) // 50 if is_stepped_over else len(data)
            return whole(decoder, data, source)

        monkeypatch.setattr(bounded_answers, "decode", decode)

    async def turn(self) -> None:
        while True:
            self.most_decoded = max(self.most_decoded, self.decoded)
            self.decoded = 0
            await asyncio.sleep(0)


@pytest.mark.parametrize("document", [each for each, _ in REFUSED.values()], ids=REFUSED)
def test_no_turn_of_the_loop_decodes_more_than_a_document(document: Json, monkeypatch: pytest.MonkeyPatch) -> None:
    """256 KiB with 4,000 values take half a millisecond; 1.35 MB of maps would take 160."""
    work = Work(monkeypatch)
    text = json.dumps({"type": "ADDED", "object": document}).encode() + b"\n"

    async def watch() -> None:
        turns = asyncio.create_task(work.turn())
        async for _ in BoundedAnswers().events(response(text)):
            pass
        turns.cancel()

    asyncio.run(watch())
    assert work.most_decoded <= bounds.LARGEST_DOCUMENT + SMALL


def largest_texts() -> Iterator[bytes]:
    yield b'{"a":[' + b"{}," * 60_000 + b"{}]}"
    yield b'{"a":"' + b"\\n" * 300_000 + b'"}'
    yield b'{"a":"' + b"x" * 700_000 + b'"}'
    yield b"[" * 200_000


@pytest.mark.parametrize("text", list(largest_texts()), ids=["maps", "escapes", "text", "brackets"])
def test_a_slice_is_small_and_little_is_held(text: bytes) -> None:
    """Between two pauses at most so many tokens and bytes are looked at, and never is more than one object kept."""
    splitter = Splitter()
    pauses = 0
    for at in range(0, len(text), CHUNK):
        for piece in splitter.take(text[at : at + CHUNK]):
            pauses += piece is None
            assert len(splitter._held) <= bounds.LARGEST_OBJECT
    tokens = len(bounded_answers._TOKENS.findall(text))
    assert pauses >= max(len(text) / SLICE, tokens / AT_ONCE - len(text) / SLICE)
