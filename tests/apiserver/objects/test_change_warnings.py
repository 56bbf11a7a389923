"""What a client is told of a change that is accepted, with Kubernetes' texts; of a new object it is told the same."""

from __future__ import annotations

from typing import Any

import pytest

from jettison.apiserver.objects.validation.addresses import network_warnings
from tests.apiserver.served import MERGE, Served

Json = dict[str, Any]

SETS = "/apis/apps/v1/namespaces/default"
CORE = "/api/v1/namespaces/default"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
LABELS = {"app": "web"}
OLD_KEY = "beta.kubernetes.io/os"
TEMPLATE = f'spec.template.spec.nodeSelector[{OLD_KEY}]: deprecated since v1.14; use "kubernetes.io/os" instead'
OLD_ANNOTATION = "kubernetes.io/enforce-mountable-secrets"


def told(answer: Any) -> list[str]:
    assert answer.code in (200, 201), answer.content
    texts = str(answer.headers.get("warning", "")).replace('\\"', "'").split('299 - "')
    return [each.removesuffix(", ").removesuffix('"').replace("'", '"') for each in texts if each]


def workload(**spec: Any) -> Json:
    pod = {"containers": [{"name": "c", "image": "i"}], "nodeSelector": {OLD_KEY: "linux"}}
    whole = {"selector": {"matchLabels": LABELS}, "template": {"metadata": {"labels": LABELS}, "spec": pod}, **spec}
    return {"metadata": {"name": "w"}, "spec": whole}


@pytest.mark.parametrize("plural", ["deployments", "replicasets", "statefulsets", "daemonsets"])
def test_templates(api: Served, plural: str) -> None:
    """Whenever the spec changes, not when something else does; of a DaemonSet, when the template does."""
    path = f"{SETS}/{plural}"
    assert told(api.post(path, workload())) == [TEMPLATE]
    assert told(api.patch(f"{path}/w", {"metadata": {"labels": {"a": "b"}}}, MERGE)) == []
    assert told(api.patch(f"{path}/w/status", {"status": {"observedGeneration": 1}}, MERGE)) == []
    change = {"spec": {"template": {"metadata": {"annotations": {"a": "b"}}}}}
    assert told(api.patch(f"{path}/w", change, MERGE)) == [TEMPLATE]
    fewer = {"spec": {"minReadySeconds": 5}}
    assert told(api.patch(f"{path}/w", fewer, MERGE)) == ([] if plural == "daemonsets" else [TEMPLATE])
    if plural != "daemonsets":
        assert told(api.patch(f"{path}/w/scale", {"spec": {"replicas": 7}}, MERGE)) == [TEMPLATE]


def test_the_template_that_a_replication_controller_had(api: Served) -> None:
    path = f"{CORE}/replicationcontrollers"
    document = workload()
    document["spec"]["selector"] = LABELS
    assert told(api.post(path, document)) == [TEMPLATE]
    better = {"spec": {"template": {"spec": {"nodeSelector": None}}}}
    assert told(api.patch(f"{path}/w", better, MERGE)) == [TEMPLATE]
    assert told(api.patch(f"{path}/w", {"spec": {"replicas": 3}}, MERGE)) == []


def test_a_history_without_end(api: Served) -> None:
    why = "a negative value retains all historical revisions; a value >= 0 is recommended"
    expected = [TEMPLATE, f"spec.revisionHistoryLimit: {why}"]
    assert told(api.post(f"{SETS}/statefulsets", workload(revisionHistoryLimit=-1))) == expected
    assert told(api.patch(f"{SETS}/statefulsets/w", {"metadata": {"labels": {"a": "b"}}}, MERGE)) == expected[1:]


def test_an_indexed_job_of_many(api: Served) -> None:
    spec = workload()["spec"]["template"]["spec"]
    job = {"template": {"spec": {**spec, "restartPolicy": "Never", "nodeSelector": {}}}, "completionMode": "Indexed"}
    answer = api.post(JOBS, {"metadata": {"name": "j"}, "spec": {**job, "completions": 100_001, "parallelism": 10_001}})
    (text,) = told(answer)
    assert text.startswith("spec: In Indexed Jobs with a number of completions higher than 10^5")
    changed = api.patch(f"{JOBS}/j", {"spec": {"parallelism": 10_002}}, MERGE)
    assert told(changed) == [text]


@pytest.mark.parametrize(
    ("path", "document", "change", "first", "later"),
    [
        (
            f"{CORE}/services",
            {"spec": {"ports": [{"port": 80}], "externalName": "x"}},
            {"metadata": {"labels": {"a": "b"}}},
            ['spec.externalName is ignored when spec.type is not "ExternalName"'],
            ['spec.externalName is ignored when spec.type is not "ExternalName"'],
        ),
        (
            f"{CORE}/services",
            {"spec": {"ports": [{"port": 80}], "clusterIP": "None"}},
            {"metadata": {"annotations": {"service.kubernetes.io/topology-aware-hints": "auto"}}},
            [],
            [
                (
                    "annotation service.kubernetes.io/topology-aware-hints is deprecated, please use "
                    "service.kubernetes.io/topology-mode instead"
                )
            ],
        ),
        (
            f"{CORE}/serviceaccounts",
            {},
            {"metadata": {"annotations": {OLD_ANNOTATION: "true"}}},
            [],
            [
                (
                    f"metadata.annotations[{OLD_ANNOTATION}]: deprecated in v1.32+; prefer separate namespaces to "
                    "isolate access to mounted secrets"
                )
            ],
        ),
        (
            f"{CORE}/secrets",
            {"type": "kubernetes.io/tls", "data": {"tls.crt": "eA==", "tls.key": "eA=="}},
            {"metadata": {"labels": {"a": "b"}}},
            ["tls: failed to find any PEM data in certificate input"],
            ["tls: failed to find any PEM data in certificate input"],
        ),
        (
            "/api/v1/nodes",
            {"spec": {"externalID": "x", "configSource": {}}},
            {"metadata": {"labels": {"a": "b"}}},
            ["spec.externalID: this field is deprecated, and is unused by Kubernetes"],
            ["spec.externalID: this field is deprecated, and is unused by Kubernetes"],
        ),
        (
            "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
            {"addressType": "FQDN", "endpoints": [{"addresses": ["a.example"]}]},
            {"metadata": {"labels": {"a": "b"}}},
            ["spec.addressType: FQDN endpoints are deprecated"],
            [],
        ),
    ],
)
def test_other_kinds(api: Served, path: str, document: Json, change: Json, first: list[str], later: list[str]) -> None:
    made = told(api.post(path, {"metadata": {"name": "w"}, **document}))
    assert [each for each in made if "nothing routes" not in each] == first
    assert told(api.patch(f"{path}/w", change, MERGE)) == later


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("10.1.2.3/24", 'is ambiguous in this context (should be "10.1.2.0/24" or "10.1.2.3/32"?)'),
        ("2001:DB8::/64", 'should be in RFC 5952 canonical format ("2001:db8::/64")'),
        ("010.1.2.0/24", 'is invalid: use "10.1.2.0/24"'),
        ("10.1.2.0/24", ""),
        ("nonsense", ""),
        ("10.1.2.0/99", ""),
    ],
)
def test_ranges_of_addresses(text: str, why: str) -> None:
    found = list(network_warnings(text, "f"))
    assert len(found) == bool(why)
    assert all(each.startswith("f: ") and f'"{text}" {why}' in each for each in found), found
