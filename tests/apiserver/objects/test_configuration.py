"""ConfigMaps, Secrets and service accounts: what is filled in, refused and printed, in Kubernetes' words."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.apiserver.served import Json, Served, pod_document

MAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
PODS = "/api/v1/namespaces/default/pods"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"

KEY = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
TOO_LONG = "Too long: may not be more than 1048576 bytes"
IMMUTABLE = "Forbidden: field is immutable when `immutable` is set"


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def named(name: str, **rest: Any) -> Json:
    return {"metadata": {"name": name}, **rest}


@pytest.mark.parametrize(
    ("path", "document", "complaint"),
    [
        (MAPS, {"data": {"a b": "x"}}, f'data[a b]: Invalid value: "a b": {KEY}'),
        (MAPS, {"data": {"..": "x"}}, "data[..]: Invalid value: \"..\": must not be '..'"),
        (MAPS, {"data": {"..x": "x"}}, "data[..x]: Invalid value: \"..x\": must not start with '..'"),
        (MAPS, {"data": {".": "x"}}, "data[.]: Invalid value: \".\": must not be '.'"),
        (MAPS, {"data": {"k" * 254: "x"}}, "must be no more than 253 characters"),
        (MAPS, {"data": {"k": "x"}, "binaryData": {"k": b64("y")}}, "duplicate of key present in binaryData"),
        (MAPS, {"binaryData": {"a/b": ""}}, f'binaryData[a/b]: Invalid value: "a/b": {KEY}'),
        (MAPS, {"data": {"k": "é" * 10, "l": "x" * 1_048_557}}, f"[]: {TOO_LONG}"),
        (SECRETS, {"stringData": {"k": "x" * 1_048_577}}, f"data: {TOO_LONG}"),
        (SECRETS, {"data": {"a b": ""}}, "data[a b]: Invalid value"),
        (SECRETS, {"type": "kubernetes.io/tls", "data": {"tls.crt": ""}}, "data[tls.key]: Required value"),
        (SECRETS, {"type": "kubernetes.io/basic-auth"}, "[data[username]: Required value, data[password]: Required"),
        (SECRETS, {"type": "kubernetes.io/ssh-auth", "data": {"ssh-privatekey": ""}}, "data[ssh-privatekey]: Required"),
        (SECRETS, {"type": "kubernetes.io/dockercfg"}, "data[.dockercfg]: Required value"),
        (
            SECRETS,
            {"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": "[]"}},
            "<secret contents redacted>",
        ),
        (
            SECRETS,
            {"type": "kubernetes.io/service-account-token"},
            "metadata.annotations[kubernetes.io/service-account.name]: Required value",
        ),
    ],
)
def test_what_is_refused(api: Served, path: str, document: Json, complaint: str) -> None:
    answer = api.post(path, named("x", **document))
    assert answer.code == 422
    assert complaint in answer.message


def test_a_secret_is_opaque_and_its_texts_become_data(api: Served) -> None:
    made = api.post(SECRETS, named("s", data={"a": b64("1"), "b": b64("2")}, stringData={"b": "3", "c": ""}))
    assert made.code == 201
    assert made.body["type"] == "Opaque"
    assert made.body["data"] == {"a": b64("1"), "b": b64("3"), "c": ""}
    assert "stringData" not in made.body
    assert api.patch(f"{SECRETS}/s", {"stringData": {"a": "x"}}).body["data"]["a"] == b64("x")
    assert "field is immutable" in api.patch(f"{SECRETS}/s", {"type": "other"}).message


@pytest.mark.parametrize(
    ("text", "position"),
    [("a*==", 1), ("abc", 0), ("abcdef", 4), ("abcdab=", 7), ("ab=c", 2), ("ab==a", 4), ("a===", 1)],
)
def test_what_is_not_base64_is_a_bad_request(api: Served, text: str, position: int) -> None:
    answer = api.post(SECRETS, named("s", data={"k": text}))
    assert (answer.code, answer.message.rpartition("byte ")[2]) == (400, str(position))
    wrapped = api.post(SECRETS, named("t", data={"k": "YWJj\nZGVm\n"}))
    assert wrapped.body["data"] == {"k": "YWJjZGVm"}


@pytest.mark.parametrize("path", [MAPS, SECRETS])
def test_what_is_immutable_stays(api: Served, path: str) -> None:
    assert api.post(path, named("x", immutable=True)).code == 201
    assert f"data: {IMMUTABLE}" in api.patch(f"{path}/x", {"data": {"k": b64("new")}}).message
    assert f"immutable: {IMMUTABLE}" in api.patch(f"{path}/x", {"immutable": None}).message
    assert api.patch(f"{path}/x", {"metadata": {"labels": {"a": "b"}}}).code == 200
    assert api.delete(f"{path}/x").code == 200


def test_tables_count_the_keys(api: Served) -> None:
    api.post(MAPS, named("m", data={"a": "1"}, binaryData={"b": ""}))
    api.post(SECRETS, named("s", data={"a": ""}))
    cells = {path: api.get(path, accept=TABLE).body["rows"][0]["cells"][:-1] for path in (MAPS, SECRETS)}
    assert cells == {MAPS: ["m", 2], SECRETS: ["s", "Opaque", 1]}
    chosen = api.get(SECRETS, query="fieldSelector=type%3DOpaque").body["items"]
    assert [each["metadata"]["name"] for each in chosen] == ["s"]
    assert api.get(SECRETS, query="fieldSelector=type%3Dother").body["items"] == []


def test_an_account_keeps_only_the_names_of_its_secrets(api: Served) -> None:
    made = api.post(ACCOUNTS, named("a", secrets=[{"name": "s", "namespace": "x", "uid": "u"}]))
    assert made.body["secrets"] == [{"name": "s"}]


class TestPodsOfAClusterWithAccounts:
    """Where a controller makes accounts, pods have one; elsewhere they are as their manifests say."""

    @pytest.fixture
    def kept(self, tmp_path: Path) -> Iterator[Served]:
        served = Served(tmp_path / "accounts", has_accounts=True)
        yield served
        served.close()

    def test_every_pod_has_one(self, kept: Served, api: Served) -> None:
        spec = kept.post(PODS, pod_document("p")).body["spec"]
        assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("default", "default")
        assert "volumes" not in spec
        assert "serviceAccountName" not in api.post(PODS, pod_document("p")).body["spec"]

    def test_one_that_is_not_there_is_refused(self, kept: Served) -> None:
        answer = kept.post(PODS, pod_document("p", serviceAccountName="x"))
        why = 'error looking up service account default/x: serviceaccount "x" not found'
        assert (answer.code, answer.message) == (403, f'pods "p" is forbidden: {why}')

    def test_a_token_is_mounted_where_the_pod_or_the_account_says_so(self, kept: Served) -> None:
        kept.post(ACCOUNTS, named("a", automountServiceAccountToken=True, imagePullSecrets=[{"name": "pull"}]))
        wishes: list[Json] = [{"serviceAccountName": "a"}, {"automountServiceAccountToken": True}]
        for number, rest in enumerate(wishes):
            spec = kept.post(PODS, pod_document(f"p{number}", **rest)).body["spec"]
            name = spec["volumes"][0]["name"]
            assert name.startswith("kube-api-access-")
            assert [next(iter(each)) for each in spec["volumes"][0]["projected"]["sources"]] == [
                "serviceAccountToken",
                "configMap",
                "downwardAPI",
            ]
            mount = {"name": name, "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
            assert spec["containers"][0]["volumeMounts"] == [mount]
            assert spec.get("imagePullSecrets") == ([{"name": "pull"}] if number == 0 else None)
        refused = kept.post(PODS, pod_document("q", serviceAccountName="a", automountServiceAccountToken=False))
        assert "volumes" not in refused.body["spec"]
