"""Hostile input is normal input: a `JettisonError` with a clear message or a defined answer, and both at once.

Never another exception, never a hang: each case has two seconds, most need a thousandth of one.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jettison.engine.config.kubelet_config import Source, assemble
from jettison.engine.config.kubelet_fields import BY_FLAG, BY_KEY
from jettison.engine.config.policy import build_policy
from jettison.engine.node.decide import Evict, decide
from jettison.engine.node.pressure import History
from jettison.engine.node.signals import Signal
from jettison.engine.node.snapshot import Snapshot
from jettison.engine.numbers.durations import parse_duration
from jettison.engine.numbers.quantity import parse
from jettison.engine.numbers.strconv import count_cpus, parse_percentage
from jettison.engine.pods.pod import Pod
from jettison.manifests.pods import parse_pods, pod_from
from jettison.manifests.summary import summary_from
from tests.builders import document, node, policy, snapshot
from tests.hostile import (
    CONFIG,
    READERS,
    VALID,
    WRONG,
    attempt,
    encoded,
    places,
    read_pods,
    read_summary,
    use_pods,
    with_value,
)
from tests.manifests.test_pods import DOCUMENT as POD
from tests.manifests.test_summary import DOCUMENT as SUMMARY
from tests.strategies import any_json, wild_texts

LONGEST_MESSAGE = 400


@pytest.mark.parametrize("kind", READERS)
def test_the_valid_documents_are_valid(kind: str) -> None:
    """Otherwise the cases below would all fail for the wrong reason."""
    assert attempt(lambda: READERS[kind](encoded(VALID[kind]))) is None


@pytest.mark.parametrize("kind", READERS)
def test_wrong_types_at_every_level(kind: str) -> None:
    """Each place of a valid document replaced by each wrong value, and then used as far as it can be."""
    valid, reader = VALID[kind], READERS[kind]
    refused = 0
    for number, path in enumerate(places(valid)):
        if kind == "pods" and path[:2] == ("items", 1):
            continue
        # A step has 150 places, of which many are alike: each gets another fifth of the values.
        for wrong in WRONG[number % 5 :: 5] if kind == "step" else WRONG:
            data = encoded(with_value(valid, path, wrong))
            try:
                refused += attempt(lambda data=data: reader(data)) is not None  # type: ignore[misc]
            except Exception as error:
                raise AssertionError(f"{path} = {str(wrong)[:60]!r}") from error
    assert refused > 100


@pytest.mark.parametrize("kind", ["pods", "summary"])
def test_wrong_types_in_decoded_documents(kind: str) -> None:
    """From YAML come bytes, dates, sets and integers that JSON cannot spell."""
    valid = POD if kind == "pods" else SUMMARY
    strange: list[Any] = [b"bytes", {1: 2}, {"a"}, 10**5000, -(10**5000), object(), complex(1, 2), (1, 2)]
    for path in places(valid):
        for wrong in strange:
            made = with_value(valid, path, wrong)
            try:
                attempt(lambda made=made: pod_from(made) if kind == "pods" else summary_from(made))  # type: ignore[misc]
            except Exception as error:
                raise AssertionError(f"{path} = a {type(wrong).__name__}") from error


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" ",
        b"\x00",
        b"\xff\xfe",
        b"\xef\xbb\xbf{}",
        b"null",
        b"[]",
        b"5",
        b'"x"',
        b"NaN",
        b"{",
        b"{}" * 1000,
        b'{"a": 1, "a": 2}',
        b'{"a": Infinity}',
        b'{"a": 0x10}',
        b'{"\\ud800": "\\udfff"}',
        b'{"a": "\x00"}',
        b'{"a": ' + b"9" * 10_000 + b"}",
        b'{"a": 1e999999999}',
        b'{"a": -0.0}',
        b"[" * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 100_000,
        b'{"a":' * 900 + b"1" + b"}" * 900,
        b"- " * 50_000,
        b"a: &a [*a]",
        b"!!python/object/apply:os.system ['true']",
        b"a: !!timestamp x",
        b"a: !!int ''",
        b"? [a]\n: b",
        b"a: &a [x, x]\n" + b"b: &b [*a, *a]\nc: &c [*b, *b]\n" * 40,
        b'{"items": [' + b"{}," * 5_000 + b"{}]}",
        b'{"metadata": {"name": "' + b"x" * 10**6 + b'"}}',
        b'{"node": {"systemContainers": [' + b'{"name": "pods"},' * 10_000 + b"{}]}}",
        b"a: [" + b"1," * 500_000 + b"]",
        b'{"a": [' + b"1," * 500_000 + b"1]}",
    ],
    ids=lambda data: repr(data[:16]) if isinstance(data, bytes) else data,
)
def test_bytes_that_are_no_such_document(kind: str, data: bytes) -> None:
    """Empty, torn, endless, nested a hundred thousand times: said in a line, or read as an object without anything."""
    said = attempt(lambda: READERS[kind](data))
    assert said is None or len(said) < LONGEST_MESSAGE


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize("kind", ["pods", "summary", "config"])
def test_literals_that_are_not_json(kind: str, literal: str) -> None:
    """Only Python writes and reads them."""
    places_of_numbers = {
        "pods": '{"spec": {"priority": %s}}',
        "summary": '{"node": {"memory": {"availableBytes": %s}}}',
        "config": '{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "maxPods": %s}',
    }
    assert attempt(lambda: READERS[kind]((places_of_numbers[kind] % literal).encode())) is not None


@pytest.mark.parametrize(
    "text", ["9" * 10_000, "-" + "9" * 10_000, "1" + "0" * 10_000, "0." + "0" * 9_990 + "1", "9" * 16_384]
)
def test_quantities_of_ten_thousand_digits_everywhere(text: str) -> None:
    """As a request, a limit, an overhead, a size, a threshold, a reclaim, a reservation, in a file and as a flag."""
    spec = {
        "containers": [
            {"name": "c", "resources": {"requests": {"memory": text}, "limits": {"ephemeral-storage": text}}}
        ],
        "overhead": {"memory": text},
        "volumes": [{"name": "v", "emptyDir": {"sizeLimit": text}}],
    }
    attempt(lambda: use_pods([pod_from({"metadata": {"name": "a"}, "spec": spec})]))
    for field in ("evictionHard", "evictionMinimumReclaim"):
        attempt(lambda field=field: use_config({field: {"memory.available": text}}))  # type: ignore[misc]
    attempt(lambda: use_config({"systemReserved": {"memory": text}}))
    attempt(lambda: build_policy(assemble(flags=[("eviction-hard", f"memory.available<{text}")])))


def use_config(fields: dict[str, Any]) -> None:
    wishes = build_policy(assemble(Source("file", document(**fields))))
    view = snapshot(0, node(), [Pod("a")])
    decide(wishes, decide(wishes, History(), view).history, view)
    assert all(str(threshold) for threshold in wishes.thresholds)


def test_a_million_digits_are_refused_at_once() -> None:
    """Python itself would need half a minute to read them."""
    million = "9" * 10**6
    for work in (parse, parse_duration, parse_percentage, count_cpus):
        assert attempt(lambda work=work: work(million)) is not None  # type: ignore[misc]
    assert "is too long" in (attempt(lambda: parse(million + "Gi")) or "")


def nested(depth: int, of: type[list[Any] | dict[str, Any]]) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value] if of is list else {"a": value}
    return value


@pytest.mark.parametrize("depth", [50, 500, 5_000, 100_000])
@pytest.mark.parametrize("of", [list, dict])
def test_deeply_nested_configurations(depth: int, of: Any) -> None:
    """In a file, in a drop-in (which is merged key by key) and as what must say the version."""
    deep = nested(depth, of)
    for made in (document(evictionHard=deep), document(maxPods=deep), document(stranger=deep), {"apiVersion": deep}):
        attempt(lambda made=made: assemble(Source("file", made)))  # type: ignore[misc]
        attempt(lambda made=made: assemble(Source("file", document()), [Source("drop-in", made)]))  # type: ignore[misc]
    attempt(lambda: pod_from(document(spec=deep)))


def test_duplicate_names_and_missing_uids() -> None:
    """Pods without a uid are known by name; of two with one name both stand in the order, with the same statistics."""
    twin = {"metadata": {"name": "twin", "namespace": "ns"}, "spec": {"containers": [{"name": "c"}, {"name": "c"}]}}
    pods = parse_pods(encoded({"items": [twin, twin, {"metadata": {"uid": "u"}}]}))
    stats, usages = summary_from(
        {
            "node": {"memory": {"availableBytes": 0, "workingSetBytes": 2**30}},
            "pods": [{"podRef": {"name": "twin", "namespace": "ns"}, "memory": {"workingSetBytes": 5}}],
        }
    )
    wishes = policy({"memory.available": "100Mi"})
    decision = decide(wishes, History(), Snapshot(0, stats, pods, usages)).decision
    assert isinstance(decision, Evict)
    assert [(order.pod.name, order.pod.uid) for order in decision.evictions] == [
        ("", "u"),
        ("twin", "ns/twin"),
        ("twin", "ns/twin"),
    ]


@pytest.mark.parametrize("name", ["\x00", "\x1b[2J", "\u202e", "a\nb", "\ufffe", "🦑", "'\"`\\"])
def test_strange_names_are_kept_as_they_are(name: str) -> None:
    """The engine neither trusts nor changes them; the code that prints them decides how."""
    (pod,) = parse_pods(encoded({"metadata": {"name": name}, "spec": {"containers": [{"name": name}]}}))
    assert (pod.name, pod.containers[0].name) == (name, name)


@pytest.mark.parametrize("number", [-1, -(2**63), 2**64, 2**64 + 1, 10**30, 1.5, -0.5])
def test_numbers_no_summary_has(number: float) -> None:
    """Counters have 64 bits and no sign; everything else is refused and named."""
    for path in (
        ("node", "memory", "availableBytes"),
        ("node", "fs", "inodes"),
        ("pods", 0, "process_stats", "process_count"),
    ):
        said = attempt(lambda path=path: read_summary(encoded(with_value(SUMMARY, path, number))))  # type: ignore[misc]
        assert said is not None, path
        assert said.startswith("summary: ")


POD_KEYS = st.sampled_from([str(key) for path in places(POD) for key in path[-1:] if isinstance(key, str)])
SUMMARY_KEYS = st.sampled_from([str(key) for path in places(SUMMARY) for key in path[-1:] if isinstance(key, str)])
CONFIG_KEYS = st.sampled_from([*BY_KEY, *Signal, "memory", "cpu"])


@given(any_json(POD_KEYS))
def test_any_json_as_pods(value: Any) -> None:
    """Alone, as a spec, and in a list."""
    for made in (value, {"metadata": value, "spec": value}, {"items": [value]}, {"items": [{"spec": value}]}):
        attempt(lambda made=made: read_pods(encoded(made)))  # type: ignore[misc]


@given(any_json(SUMMARY_KEYS))
def test_any_json_as_a_summary(value: Any) -> None:
    """Alone, as the node, and as a pod."""
    for made in (value, {"node": value}, {"pods": [value]}, {"node": {"memory": value, "fs": value, "rlimit": value}}):
        attempt(lambda made=made: read_summary(encoded(made)))  # type: ignore[misc]


@given(any_json(CONFIG_KEYS), CONFIG_KEYS)
def test_any_json_as_a_configuration(value: Any, key: str) -> None:
    """As a file, as a drop-in, as one field of either."""
    fields = document(**value) if isinstance(value, dict) and "apiVersion" not in value else value
    for made in (fields, document(**{key: value})):
        attempt(lambda made=made: build_policy(assemble(Source("file", made))))  # type: ignore[misc]
        attempt(lambda made=made: assemble(Source("file", CONFIG), [Source("drop-in", made)]))  # type: ignore[misc]


@given(st.sampled_from([*BY_FLAG, "unheard-of"]), wild_texts)
def test_any_text_as_a_flag(flag: str, text: str) -> None:
    """Every flag takes text, and says what is wrong with it."""
    attempt(lambda: build_policy(assemble(flags=[(flag, text)])))


@given(wild_texts)
def test_any_text_as_a_value(text: str) -> None:
    """Quantities, durations, percentages and CPU lists."""
    for work in (parse, parse_duration, parse_percentage, count_cpus):
        attempt(lambda work=work: work(text))  # type: ignore[misc]


@given(st.text("0123456789.+-eEinumkKMGTPhsµ%_x", max_size=30))
def test_any_text_that_looks_like_a_value(text: str) -> None:
    """Made of the letters that the grammars use, and what is read can be printed."""
    for work in (parse, parse_duration, parse_percentage, count_cpus):
        attempt(lambda work=work: str(work(text)))  # type: ignore[misc]


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    """No reader trusts its input to be text."""
    for reader in READERS.values():
        attempt(lambda reader=reader: reader(data))  # type: ignore[misc]
