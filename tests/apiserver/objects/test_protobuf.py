"""Protobuf bodies as real clients send them, and malformed ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jettison.apiserver.http.bodies import Expected, parse_body
from jettison.apiserver.objects import protobuf
from jettison.apiserver.objects.protobuf import INLINE, numbers
from jettison.apiserver.objects.schema import read_document
from jettison.errors import ApiError
from jettison.manifests.files.kinds import structs

# Captured from kubectl 1.33, `create pdb p --selector=a=b --max-unavailable=0` and the like.
DELETE_OPTIONS = bytes.fromhex("6b387300 0a130a027631120d44656c6574654f7074696f6e73 12020807 1a00 2200")
NAMESPACE = bytes.fromhex(
    "6b387300 0a0f 0a027631 12094e616d657370616365 1219 0a11 0a0178 1200 1a00 2200 2a00 3200 3800 4200 1200 1a02 0a00"
    "1a00 2200"
)


def varint(value: int) -> bytes:
    value &= 2**64 - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def body(api_version: str, kind: str, raw: bytes) -> bytes:
    return b"k8s\x00" + field(1, field(1, api_version) + field(2, kind)) + field(2, raw)


def test_what_kubectl_sends() -> None:
    assert protobuf.decode(DELETE_OPTIONS, "v1", "DeleteOptions") == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 7,
    }
    found = protobuf.decode(NAMESPACE, "v1", "Namespace")
    assert read_document("Namespace", found)[0] == {"metadata": {"name": "x"}, "spec": {}, "status": {}}


def test_a_budget_with_zero_keeps_its_zero() -> None:
    selector = field(1, field(1, "a") + field(2, ""))
    zero = field(1, 0) + field(2, 0) + field(3, "")
    spec = field(2, selector) + field(3, zero)
    found = protobuf.decode(body("policy/v1", "PodDisruptionBudget", field(2, spec)), "", "")
    assert found["spec"] == {"selector": {"matchLabels": {"a": ""}}, "maxUnavailable": 0}
    percent = field(1, 1) + field(2, 0) + field(3, "30%")
    found = protobuf.decode(body("policy/v1", "PodDisruptionBudget", field(2, field(1, percent))), "", "")
    assert found["spec"] == {"minAvailable": "30%"}


def test_a_pod_with_everything_that_is_written_differently() -> None:
    port = field(1, field(2, field(2, field(1, 0) + field(2, 8080))))
    container = field(1, "c") + field(8, field(1, field(1, "memory") + field(2, field(1, "64Mi")))) + field(11, port)
    volume = field(1, "v") + field(2, field(2, field(1, "Memory")))
    env = field(1, "E") + field(3, field(4, field(1, field(1, "secret")) + field(2, "key")))
    spec = field(1, volume) + field(2, container + field(7, env)) + field(25, -5) + field(11, 1)
    created = field(8, field(1, 1_700_000_000) + field(2, 0))
    found = protobuf.decode(body("v1", "Pod", field(1, field(1, "p") + created) + field(2, spec)), "", "")
    assert found["metadata"] == {"name": "p", "creationTimestamp": "2023-11-14T22:13:20Z"}
    assert found["spec"] == {
        "volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}],
        "containers": [
            {
                "name": "c",
                "resources": {"limits": {"memory": "64Mi"}},
                "readinessProbe": {"httpGet": {"port": 8080}},
                "env": [{"name": "E", "valueFrom": {"secretKeyRef": {"name": "secret", "key": "key"}}}],
            }
        ],
        "priority": -5,
        "hostNetwork": True,
    }


def test_a_lease_has_microseconds_and_a_revision_holds_json() -> None:
    micro = field(4, field(1, 1_700_000_000) + field(2, 123_456_789))
    lease = protobuf.decode(body("coordination.k8s.io/v1", "Lease", field(2, field(1, "h") + micro)), "", "")
    assert lease["spec"] == {"holderIdentity": "h", "renewTime": "2023-11-14T22:13:20.123456Z"}
    data = field(2, field(1, b'{"a":[1]}')) + field(3, 4)
    revision = protobuf.decode(body("apps/v1", "ControllerRevision", data), "", "")
    assert (revision["data"], revision["revision"]) == ({"a": [1]}, 4)


def test_the_path_fills_in_for_a_client_that_names_no_kind() -> None:
    assert protobuf.decode(b"k8s\x00" + field(2, field(1, 3)), "v1", "DeleteOptions")["gracePeriodSeconds"] == 3


def test_another_kind_comes_back_by_name_only() -> None:
    assert protobuf.decode(body("v2", "Gadget", b"\xff\xff"), "v1", "Pod") == {"apiVersion": "v2", "kind": "Gadget"}


def test_both_events_are_known() -> None:
    old = protobuf.decode(body("v1", "Event", field(3, "r")), "", "")
    new = protobuf.decode(body("events.k8s.io/v1", "Event", field(7, "r")), "", "")
    assert old["reason"] == new["reason"] == "r"


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "empty data (<empty>)"),
        (b"{}", "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0] ({})"),
        (b"1", "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0] (31)"),
    ],
)
def test_a_body_that_is_no_protobuf(data: bytes, complaint: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse_body(data, protobuf.CONTENT_TYPE, Expected("Pod", ("v1",), "Pod"))
    assert caught.value.message == f"the object provided is unrecognized (must be of type Pod): {complaint}"


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"k8s\x00\x80", "a number ends behind the message"),
        (b"k8s\x00" + b"\xff" * 11, "longer than 10 bytes"),
        (b"k8s\x00\x12\x7f", "ends behind the message"),
        (b"k8s\x00\x0b", "wire type 3 of field 1"),
        (body("v1", "Pod", field(1, 7)), "a number stands where"),
        (body("v1", "DeleteOptions", field(1, "x")), "a message or a text stands where"),
        (body("v1", "Pod", field(1, field(1, b"\xff"))), "not UTF-8"),
        (body("v1", "Pod", field(1, field(8, field(1, 2**62)))), "seconds from 1970"),
        (body("apps/v1", "ControllerRevision", field(2, field(1, b"{"))), "embedded JSON does not parse"),
        (body("apps/v1", "ControllerRevision", field(2, field(1, b"[" * 100_000))), "embedded JSON does not parse"),
        (
            body("apps/v1", "ControllerRevision", field(2, field(1, b"[" * 200 + b"]" * 200))),
            "embedded JSON does not parse",
        ),
    ],
)
def test_a_malformed_body_is_a_bad_request(data: bytes, complaint: str) -> None:
    with pytest.raises(ApiError, match=complaint) as caught:
        protobuf.decode(data, "v1", "Pod")
    assert (caught.value.code, caught.value.reason) == (400, "BadRequest")


@given(st.binary(max_size=200), st.sampled_from(["Pod", "Node", "Eviction", "Job", "Lease"]))
def test_noise_is_an_object_or_a_bad_request(noise: bytes, kind: str) -> None:
    try:
        kind_or_code: str | int = protobuf.decode(body("v1", kind, noise), "v1", kind)["kind"]
    except ApiError as error:
        kind_or_code = error.code
    assert kind_or_code in (kind, 400)


def encode(struct: str, value: Mapping[str, Any], message: str = "") -> bytes:
    """The opposite of the decoder, for texts, numbers, lists and structs: enough to see that the tables fit."""
    out = b""
    for number, name in numbers()[message or struct].items():
        if name.startswith(INLINE):
            out += field(number, encode(struct, value, name.removeprefix(INLINE)))
        elif name in value:
            kind = structs()[struct].fields[name].type
            held = value[name] if kind.shape else [value[name]]
            for each in held:
                out += field(number, encode(kind.base, each) if isinstance(each, Mapping) else each)
    return out


def fill(struct: str) -> dict[str, Any]:
    """A struct with every text, number, list and struct set; ends because no struct contains its own kind."""
    found: dict[str, Any] = {}
    for name, each in structs()[struct].fields.items():
        if name in ("kind", "apiVersion") and struct == "PersistentVolumeClaim":
            # What a claim inside another object is goes without saying in this form.
            continue
        base, shape = each.type.base, each.type.shape
        if base in ("string", "int32", "int64"):
            value: Any = f"{struct}.{name}" if base == "string" else len(name)
        elif base in numbers():
            value = fill(base)
        else:
            continue
        if shape in ((), ("[]",)):
            found[name] = [value] if shape else value
    return found


@pytest.mark.parametrize("kind", ["Pod", "Node", "Deployment", "StatefulSet", "Job", "PodDisruptionBudget", "Event"])
def test_every_field_of_a_kind_has_its_number(kind: str) -> None:
    filled = fill(kind)
    assert protobuf.decode(body("v1", kind, encode(kind, filled)), "v1", kind) == {
        **filled,
        "apiVersion": "v1",
        "kind": kind,
    }


def test_the_two_tables_fit() -> None:
    """Every struct has numbers, every number names a field of its struct (or of the struct that it is inlined in)."""
    inlined = {
        name.removeprefix(INLINE) for row in numbers().values() for name in row.values() if name.startswith(INLINE)
    }
    assert set(structs()) <= set(numbers()) | inlined
    for struct, row in numbers().items():
        if struct in structs() and struct not in inlined:
            own = {name for name in row.values() if not name.startswith(INLINE)}
            assert own <= set(structs()[struct].fields), struct
