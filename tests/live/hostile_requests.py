"""Requests that no client should send: spoiled documents, noise and odd paths, as lists and as strategies."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from tests.hostile import places, with_value

Json = dict[str, Any]

POD: Json = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": POD["spec"]}
WORKLOAD = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
DOCUMENTS: dict[str, Json] = {
    "/api/v1/namespaces/default/pods": {"kind": "Pod", "apiVersion": "v1", **POD},
    "/api/v1/nodes": {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n"}, "spec": {"taints": []}},
    "/api/v1/namespaces": {"metadata": {"name": "m"}},
    "/api/v1/namespaces/default/events": {"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}},
    "/apis/policy/v1/namespaces/default/poddisruptionbudgets": {
        "metadata": {"name": "b"},
        "spec": {"minAvailable": "50%", "selector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}},
    },
    "/apis/apps/v1/namespaces/default/deployments": {"metadata": {"name": "d"}, "spec": WORKLOAD},
    "/apis/apps/v1/namespaces/default/statefulsets": {"metadata": {"name": "s"}, "spec": WORKLOAD},
    "/api/v1/namespaces/default/replicationcontrollers": {"metadata": {"name": "r"}, "spec": {"template": TEMPLATE}},
    "/apis/batch/v1/namespaces/default/jobs": {"metadata": {"name": "j"}, "spec": {"template": TEMPLATE}},
    "/apis/scheduling.k8s.io/v1/priorityclasses": {"metadata": {"name": "c"}, "value": 7},
    "/apis/coordination.k8s.io/v1/namespaces/default/leases": {
        "metadata": {"name": "l"},
        "spec": {"leaseDurationSeconds": 1},
    },
    "/api/v1/namespaces/default/pods/victim/eviction": {"metadata": {"name": "victim"}, "deleteOptions": {}},
    "/api/v1/namespaces/default/pods/victim/binding": {"metadata": {"name": "victim"}, "target": {"name": "n"}},
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews": {"spec": {"resourceAttributes": {"verb": "get"}}},
    "/apis/authorization.k8s.io/v1/subjectaccessreviews": {"spec": {"user": "x", "nonResourceAttributes": {}}},
}


# What breaks documents: other types, huge and odd numbers, texts that are no names, deep nests.
NASTY_TEXTS = [
    "",
    " ",
    "..",
    "../x",
    "a/b",
    "A",
    "-",
    "x" * 300,
    "\x00",
    "\ud800",
    "ü",
    "\u202e",
    "%2e",
    "1e999",
    "9" * 40,
    "true",
    "{}",
]
nasty_texts = st.sampled_from(NASTY_TEXTS)
nasty_numbers = st.sampled_from([0, -1, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 10**40, 1.5, 1e308, -0.0])
nasty = st.one_of(
    st.none(),
    st.booleans(),
    nasty_numbers,
    nasty_texts,
    st.sampled_from([[], {}, [[]], [None], {"": ""}, {"a": None}, [{}] * 3]),
    st.recursive(
        st.none(), lambda inner: st.lists(inner, max_size=1) | st.fixed_dictionaries({"a": inner}), max_leaves=3
    ),
)


@st.composite
def broken_documents(draw: st.DrawFn) -> tuple[str, bytes]:
    """A good document with one to three places spoiled, and where it is sent to."""
    target = draw(st.sampled_from(sorted(DOCUMENTS)))
    document: Any = DOCUMENTS[target]
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.sampled_from(sorted(places(document), key=repr)))
        document = with_value(document, place, draw(nasty))
    extra = draw(st.sampled_from(["", "status", "metadata", "spec", "kind", "apiVersion", "unknown"]))
    if extra and isinstance(document, dict):
        document = {**document, extra: draw(nasty)}
    return target, json.dumps(document).encode("utf-8", "surrogatepass")


TYPES = [
    "",
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "text/plain",
    "x",
    "application/json;",
    "*/*",
]


def nest(levels: int) -> bytes:
    """A good name, and an unknown field that is nested deeply."""
    return b'{"metadata":{"name":"x"},"a":' + b'[{"a":' * levels + b"1" + b"}]" * levels + b"}"


NOISE = [
    nest(20), nest(100), nest(200), nest(450), nest(900), nest(10_000), b"[" * 300_000, b"{a: " * 300_000,
    b"", b"{", b"[]", b"null", b'"', b"{}{}", b'{"a":1,"a":2}', b"NaN", b"[" * 5000, b'{"a":' * 5000,
    b"\xef\xbb\xbf{}", b"\xff\xfe{\x00}", b"k8s\x00", b"k8s\x00\x12\xff", b"a: &a [*a]",
    b"k8s\x00\x0a\x08\x0a\x02v1\x12\x02xx", b"a: !!python/object/apply:os.system [id]", b"? : :",
    b"a: 1\na: 2", b"- " * 2000,
]  # fmt: skip
noise = st.binary(max_size=120) | st.sampled_from(NOISE)


SEGMENTS = [
    b"api", b"apis", b"v1", b"policy", b"namespaces", b"default", b"pods", b"victim", b"status", b"eviction",
    b"nodes", b"..", b".", b"", b"%2e%2e", b"%2f", b"%00", b"%ff", b"%", b"%zz", b"healthz", b"version",
    b"openapi", b"v3", b"metrics", b"~", b"\xc3\xa9", b"a" * 300, b"*", b"@", b":80", b"log", b"scale",
]  # fmt: skip
segments = st.sampled_from(SEGMENTS)
QUERIES = [
    b"", b"?", b"?limit=-1", b"?limit=x", b"?continue=!!!", b"?continue=e30", b"?labelSelector=%00", b"?%ff=%fe",
    b"?labelSelector=a%20in%20(", b"?labelSelector=" + b"a," * 500, b"?fieldSelector=a", b"?resourceVersion=abc",
    b"?fieldSelector=spec.nodeName%3D%3D%3D", b"?resourceVersion=99999999999999999999", b"?watch=False",
    b"?resourceVersionMatch=Exact", b"?sendInitialEvents=true", b"?timeoutSeconds=-5", b"?timeout=soon",
    b"?includeObject=Everything", b"?pretty=true", b"?a=b&a=c&&&==",
]  # fmt: skip
queries = st.sampled_from(QUERIES)
ACCEPTS = [
    b"*/*",
    b"",
    b"application/json",
    b"image/png",
    b"application/json;as=Table;v=v1;g=meta.k8s.io",
    b";;;,,,",
    b"application/json;as=Nonsense;g=x;v=y",
    b"\xff",
]
