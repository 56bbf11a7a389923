"""Tokens of service accounts: what they say, which user they make of a client, and what ends them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any, Final

import pytest

from jettison.apiserver.access.account_tokens import AUDIENCE, ensure_key
from jettison.errors import InputError
from tests.apiserver.served import Answer, Json, Served, pod_document

ACCOUNTS: Final = "/api/v1/namespaces/default/serviceaccounts"
PODS: Final = "/api/v1/namespaces/default/pods"
SECRETS: Final = "/api/v1/namespaces/default/secrets"
MAPS: Final = "/api/v1/namespaces/default/configmaps"
WHO: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
UNRELATED: Final = "no relationship found between node 'n1' and this object"


@pytest.fixture
def account(api: Served) -> Json:
    return api.post(ACCOUNTS, {"metadata": {"name": "a"}}).body


def ask(api: Served, name: str = "a", token: str = "admin", **spec: Any) -> Answer:
    return api.post(f"{ACCOUNTS}/{name}/token", {"spec": {"audiences": [], **spec}}, token=token)


def token_of(answer: Answer) -> str:
    assert answer.code == 201, answer.content
    return str(answer.body["status"]["token"])


def claims(token: str) -> Json:
    body = token.split(".")[1]
    found: Json = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return found


def bound(pod: Json, **changes: str) -> Json:
    about = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
    return {"boundObjectRef": about | changes}


def test_a_token_makes_its_holder_the_account(api: Served, account: Json) -> None:
    answer = ask(api, expirationSeconds=600)
    token = token_of(answer)
    assert answer.body["spec"] == {"audiences": [AUDIENCE], "expirationSeconds": 600, "boundObjectRef": None}
    said = claims(token)
    assert said["exp"] - said["iat"] == 600
    assert said["sub"] == "system:serviceaccount:default:a"
    assert said["kubernetes.io"] == {
        "namespace": "default",
        "serviceaccount": {"name": "a", "uid": account["metadata"]["uid"]},
    }
    user = api.post(WHO, {}, token=token).body["status"]["userInfo"]
    assert user["username"] == "system:serviceaccount:default:a"
    assert user["uid"] == account["metadata"]["uid"]
    assert user["groups"] == ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]
    assert api.get(PODS, token=token).code == 403


@pytest.mark.parametrize(
    ("metadata", "code", "text"),
    [
        ({"namespace": "x", "name": "b"}, 400, "the namespace of the provided object does not match the namespace"),
        ({"namespace": "", "name": "b"}, 422, 'metadata.name: Invalid value: "b": must match the service account name'),
        ({"namespace": "default", "name": "a"}, 201, ""),
    ],
)
def test_a_request_for_a_token_is_for_the_account_of_its_path(
    api: Served, account: Json, metadata: Json, code: int, text: str
) -> None:
    answer = api.post(f"{ACCOUNTS}/{account['metadata']['name']}/token", {"metadata": metadata, "spec": {}})
    assert (answer.code, text in answer.body.get("message", "")) == (code, True)


def test_a_token_ends_with_its_time(api: Served, account: Json) -> None:
    del account
    token = token_of(ask(api, expirationSeconds=600))
    api.clock.seconds += 599
    assert api.post(WHO, {}, token=token).code == 201
    api.clock.seconds += 1
    assert api.post(WHO, {}, token=token).code == 401


def test_a_token_ends_with_its_account(api: Served, account: Json) -> None:
    del account
    token = token_of(ask(api))
    api.delete(f"{ACCOUNTS}/a")
    assert api.post(WHO, {}, token=token).code == 401
    # Another one of the same name is another one.
    api.post(ACCOUNTS, {"metadata": {"name": "a"}})
    assert api.post(WHO, {}, token=token).code == 401


def test_a_bound_token_ends_with_its_pod(api: Served, account: Json) -> None:
    del account
    pod = api.post(PODS, pod_document("p", node="n1", serviceAccountName="a")).body
    token = token_of(ask(api, **bound(pod)))
    assert claims(token)["kubernetes.io"]["pod"] == {"name": "p", "uid": pod["metadata"]["uid"]}
    assert claims(token)["kubernetes.io"]["node"] == {"name": "n1"}
    extra = api.post(WHO, {}, token=token).body["status"]["userInfo"]["extra"]
    assert extra["authentication.kubernetes.io/pod-name"] == ["p"]
    api.delete(f"{PODS}/p", {"gracePeriodSeconds": 0})
    assert api.post(WHO, {}, token=token).code == 401


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_changed_token_is_unknown(api: Served, account: Json, place: int) -> None:
    del account
    parts = token_of(ask(api)).split(".")
    parts[place] = ("A" if parts[place][5] != "A" else "B").join((parts[place][:5], parts[place][6:]))
    assert api.post(WHO, {}, token=".".join(parts)).code == 401


@pytest.mark.parametrize("token", [".", "..", "a.b.c", "é.b.c", "." * 20_000, "a" * 100_000])
def test_what_is_no_token_is_unknown(api: Served, token: str) -> None:
    assert api.post(WHO, {}, token=token).code == 401


def test_a_token_for_others_is_not_for_this_server(api: Served, account: Json) -> None:
    del account
    assert api.post(WHO, {}, token=token_of(ask(api, audiences=["vault"]))).code == 401
    assert api.post(WHO, {}, token=token_of(ask(api, audiences=["vault", AUDIENCE]))).code == 201


@pytest.mark.parametrize(
    ("spec", "code", "complaint"),
    [
        ({"expirationSeconds": 599}, 422, "may not specify a duration less than 10 minutes"),
        ({"expirationSeconds": 2**32 + 1}, 422, "may not specify a duration larger than 2^32 seconds"),
        ({"boundObjectRef": {"apiVersion": "apps/v1", "kind": "Deployment"}}, 400, "apps/v1, Kind=Deployment"),
        ({"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "x"}}, 404, 'pods "x" not found'),
        (
            {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "other"}},
            400,
            "different serviceaccount name",
        ),
        ({"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "own", "uid": "u"}}, 409, "does not match"),
    ],
)
def test_what_cannot_be_had(api: Served, account: Json, spec: Json, code: int, complaint: str) -> None:
    del account
    api.post(PODS, pod_document("other", serviceAccountName="b"))
    api.post(PODS, pod_document("own", serviceAccountName="a"))
    answer = ask(api, **spec)
    assert (answer.code, complaint in answer.message) == (code, True), answer.message
    assert ask(api, name="absent").message == 'serviceaccounts "absent" not found'


def token_volume(audience: str = "") -> list[Json]:
    source = {"path": "token", **({"audience": audience} if audience else {})}
    return [{"name": "t", "projected": {"sources": [{"serviceAccountToken": source}]}}]


def test_a_node_has_tokens_for_its_pods_only(api: Served, account: Json) -> None:
    del account
    api.post(ACCOUNTS, {"metadata": {"name": "foreign"}})
    own = api.post(PODS, pod_document("own", node="n1", serviceAccountName="a", volumes=token_volume())).body
    other = api.post(PODS, pod_document("other", node="n2", serviceAccountName="a", volumes=token_volume())).body
    api.post(PODS, pod_document("far", node="n2", serviceAccountName="foreign"))
    token_of(ask(api, token="node", **bound(own)))
    for refused, why in (
        (ask(api, token="node"), "node requested token not bound to a pod"),
        (ask(api, token="node", **bound(own, uid="")), "node requested token with a pod binding without a uid"),
        (ask(api, token="node", **bound(own, uid="x")), "does not match the UID in record"),
        (ask(api, token="node", **bound(other)), "node requested token bound to a pod scheduled on a different node"),
        (ask(api, token="node", audiences=["vault"], **bound(own)), 'request tokens for audience "vault"'),
        (ask(api, token="node", audiences=["a", "b"], **bound(own)), "node may only request 0 or 1 audiences"),
        (ask(api, "foreign", token="node", **bound(own)), UNRELATED),
        (ask(api, token="viewer"), 'User "viewer" cannot create resource "serviceaccounts/token"'),
    ):
        assert refused.code == 403
        assert why in refused.message


REFERENCES: Final[dict[str, Json]] = {
    "volume": {"volumes": [{"name": "v", "secret": {"secretName": "x"}}]},
    "projected": {"volumes": [{"name": "v", "projected": {"sources": [{"secret": {"name": "x"}}]}}]},
    "pull": {"imagePullSecrets": [{"name": "x"}]},
    "variable": {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "x", "key": "k"}}}]},
    "variables": {"envFrom": [{"secretRef": {"name": "x"}}]},
    "init": {"initContainers": [{"name": "i", "image": "i", "envFrom": [{"secretRef": {"name": "x"}}]}]},
}


@pytest.mark.parametrize("reference", REFERENCES)
def test_a_node_reads_the_secrets_that_its_pods_refer_to(api: Served, reference: str) -> None:
    for name in ("x", "y"):
        api.post(SECRETS, {"metadata": {"name": name}})
    assert api.get(f"{SECRETS}/x", token="node").code == 403
    rest = dict(REFERENCES[reference])
    document = pod_document("p", node="n1")
    for key in ("env", "envFrom"):
        if key in rest:
            document["spec"]["containers"][0][key] = rest.pop(key)
    document["spec"] |= rest
    assert api.post(PODS, document).code == 201
    assert api.get(f"{SECRETS}/x", token="node").code == 200
    assert api.get(SECRETS, token="node", query="fieldSelector=metadata.name%3Dx").code == 200
    for path, query, why in (
        (f"{SECRETS}/y", "", UNRELATED),
        (SECRETS, "", "No Object name found"),
        ("/api/v1/secrets", "", "can only read namespaced object of this type"),
        (f"{MAPS}/x", "", UNRELATED),
    ):
        answer = api.get(path, token="node", query=query)
        assert (answer.code, answer.message.rpartition(": ")[2]) == (403, why)
    assert "can only read resources of this type" in api.delete(f"{SECRETS}/x", token="node").message


def test_a_mirror_gives_its_node_no_secret(api: Served) -> None:
    document = pod_document("m", node="n1", **REFERENCES["volume"])
    document["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "u"}
    assert api.post(PODS, document).code == 201
    api.post(SECRETS, {"metadata": {"name": "x"}})
    assert api.get(f"{SECRETS}/x", token="node").code == 403


def test_secrets_are_not_for_viewers_and_evictors(api: Served) -> None:
    api.post(SECRETS, {"metadata": {"name": "x"}})
    for token in ("viewer", "evictor"):
        for path in (SECRETS, f"{SECRETS}/x"):
            assert api.get(path, token=token).code == 403
            assert api.get(path, token=token, query="watch=1&timeoutSeconds=1").code == 403
    assert api.get(MAPS, token="viewer").code == 200


def test_the_key_is_made_once_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "accounts.key"
    assert ensure_key(path) == ensure_key(path)
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_bytes(b"short")
    with pytest.raises(InputError, match="has 5 bytes, expected a key of 32"):
        ensure_key(path)
