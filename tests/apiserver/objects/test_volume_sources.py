"""Sources of volumes that are not of the node itself. The mistakes are those that Kubernetes v1.36.4 named."""

from __future__ import annotations

from typing import Any

import pytest

from tests.apiserver.served import PODS, Served

Json = dict[str, Any]

LABEL = "a lowercase RFC 1123 label must consist of lower case"
SUBDOMAIN = "a lowercase RFC 1123 subdomain must consist of lower case"
PAIRS = "must be a host:port pair or multiple pairs separated by commas"
LUN = "lun: Invalid value: 256: must be between 0 and 255, inclusive"
QUALIFIED = "iqn.2001-04.com.example:storage"
PORTAL = (
    "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters"
    " if iscsi.initiatorName is specified."
)
BLOB = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
MANAGED = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
CLAIM = "ephemeral.volumeClaimTemplate"


def claimed(**spec: Any) -> Json:
    known = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}
    return {"volumeClaimTemplate": {"spec": {**known, **spec}}}


@pytest.mark.parametrize(
    ("name", "source", "mistakes"),
    [
        (
            "gitRepo",
            {"directory": "/a/../b"},
            [
                "gitRepo.repository: Required value",
                'gitRepo.directory: Invalid value: "/a/../b": must be a relative path',
                "gitRepo.directory: Invalid value: \"/a/../b\": must not contain '..'",
            ],
        ),
        (
            "gcePersistentDisk",
            {"partition": 256},
            [
                "persistentDisk.pdName: Required value",
                "persistentDisk.partition: Invalid value: 256: must be between 1 and 255, inclusive",
            ],
        ),
        (
            "awsElasticBlockStore",
            {"volumeID": "v", "partition": -1},
            ["awsElasticBlockStore.partition: Invalid value: -1: must be between 1 and 255, inclusive"],
        ),
        (
            "nfs",
            {},
            [
                "nfs.server: Required value",
                "nfs.path: Required value",
                'nfs.path: Invalid value: "": must be an absolute path',
            ],
        ),
        (
            "iscsi",
            {"targetPortal": "p", "iqn": "x", "lun": 256, "chapAuthSession": True, "initiatorName": "iqn.y"},
            [
                'iscsi.iqn: Invalid value: "x": must be valid format starting with iqn, eui, or naa',
                f"iscsi.{LUN}",
                "iscsi.secretRef: Required value",
                'iscsi.initiatorname: Invalid value: "iqn.y": must be valid format',
            ],
        ),
        (
            "iscsi",
            {"targetPortal": "p" * 70, "iqn": QUALIFIED, "initiatorName": "eui.0123456789abcdef"},
            [f'name: Invalid value: "v": {PORTAL}'],
        ),
        (
            "iscsi",
            {"targetPortal": "p", "iqn": "naa.1"},
            ['iscsi.iqn: Invalid value: "naa.1": must be valid format'],
        ),
        (
            "flocker",
            {"datasetName": "a/b", "datasetUUID": "u"},
            [
                'flocker: Invalid value: "resource": datasetName and datasetUUID can not be specified simultaneously',
                "flocker.datasetName: Invalid value: \"a/b\": must not contain '/'",
            ],
        ),
        ("flocker", {}, ["flocker: Required value: one of datasetName and datasetUUID is required"]),
        ("quobyte", {"registry": "a:1,b", "volume": "v"}, [f'quobyte.registry: Invalid value: "a:1,b": {PAIRS}']),
        (
            "quobyte",
            {"registry": "[::1]:1,a:b:1", "volume": "v"},
            [f'quobyte.registry: Invalid value: "[::1]:1,a:b:1": {PAIRS}'],
        ),
        (
            "quobyte",
            {"registry": "a:1", "tenant": "t" * 65},
            [
                "quobyte.tenant: Required value: must be a UUID and may not exceed a length of 64 characters",
                "quobyte.volume: Required value",
            ],
        ),
        ("fc", {}, ["fc.targetWWNs: Required value: must specify either targetWWNs or wwids, but not both"]),
        (
            "fc",
            {"targetWWNs": ["a"], "wwids": ["b"], "lun": 256},
            [
                'fc.targetWWNs: Invalid value: ["a"]: targetWWNs and wwids can not be specified simultaneously',
                f"fc.{LUN}",
            ],
        ),
        ("fc", {"targetWWNs": ["a"]}, ["fc.lun: Required value: lun is required if targetWWNs is specified"]),
        (
            "flexVolume",
            {"driver": "d", "options": {"a.KUBERNETES.io/b": "c"}},
            [
                (
                    'flexVolume.options[a.KUBERNETES.io/b]: Invalid value: "a.KUBERNETES.io/b": '
                    "kubernetes.io and k8s.io namespaces are reserved"
                )
            ],
        ),
        ("cinder", {"volumeID": "v", "secretRef": {}}, ["cinder.secretRef.name: Required value"]),
        (
            "azureDisk",
            {"diskName": "d", "diskURI": "x", "cachingMode": "y", "kind": "z"},
            [
                'azureDisk.cachingMode: Unsupported value: "y": supported values: "None", "ReadOnly", "ReadWrite"',
                'azureDisk.kind: Unsupported value: "z": supported values: "Dedicated", "Managed", "Shared"',
                f'azureDisk.diskURI: Unsupported value: "x": supported values: "{BLOB}"',
            ],
        ),
        (
            "azureDisk",
            {"diskName": "d", "diskURI": "https://x", "kind": "Managed"},
            [f'azureDisk.diskURI: Unsupported value: "https://x": supported values: "{MANAGED}"'],
        ),
        (
            "storageos",
            {"volumeName": "A", "volumeNamespace": "a.b", "secretRef": {}},
            [
                f'storageos.volumeName: Invalid value: "A": {LABEL}',
                'storageos.volumeNamespace: Invalid value: "a.b": must not contain dots',
                "storageos.secretRef.name: Required value",
            ],
        ),
        (
            "csi",
            {"driver": "Bad_Driver", "nodePublishSecretRef": {"name": "A B"}},
            [
                f'csi.driver: Invalid value: "Bad_Driver": {SUBDOMAIN}',
                f'csi.name: Invalid value: "A B": {SUBDOMAIN}',
            ],
        ),
        (
            "csi",
            {"driver": "a" * 64, "nodePublishSecretRef": {}},
            [
                "csi.driver: Too long: may not be more than 63 bytes",
                "csi.nodePublishSecretRef.name: Required value",
            ],
        ),
        (
            "ephemeral",
            {"volumeClaimTemplate": {"metadata": {"name": "n", "uid": "u", "labels": {"a": "b c"}}, "spec": {}}},
            [
                f'{CLAIM}.metadata.labels: Invalid value: "b c": a valid label must be an empty string',
                f"{CLAIM}.metadata.name: Forbidden: cannot be set",
                f"{CLAIM}.metadata.uID: Forbidden: cannot be set",
                f"{CLAIM}.spec.accessModes: Required value: at least 1 access mode is required",
                f"{CLAIM}.spec.resources[storage]: Required value",
            ],
        ),
        (
            "ephemeral",
            claimed(
                accessModes=["ReadWriteOncePod", "ReadOnlyMany", "x"],
                resources={"requests": {"storage": "0"}},
                storageClassName="A B",
                volumeMode="y",
                volumeAttributesClassName="C D",
            ),
            [
                (
                    f'{CLAIM}.spec.accessModes: Unsupported value: "x": supported values: '
                    '"ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"'
                ),
                f"{CLAIM}.spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
                f'{CLAIM}.spec.resources[storage]: Invalid value: "0": must be greater than zero',
                f'{CLAIM}.spec.storageClassName: Invalid value: "A B": {SUBDOMAIN}',
                f'{CLAIM}.spec.volumeMode: Unsupported value: "y": supported values: "Block", "Filesystem"',
                f'{CLAIM}.spec.volumeAttributesClassName: Invalid value: "C D": {SUBDOMAIN}',
            ],
        ),
        (
            "ephemeral",
            claimed(
                dataSource={"kind": "x", "name": "n"},
                dataSourceRef={"apiGroup": "A B", "kind": "x", "name": ""},
            ),
            [
                (
                    f"{CLAIM}.spec.dataSource: Invalid value: \"x\": must be 'PersistentVolumeClaim'"
                    " when referencing the default apiGroup"
                ),
                f"{CLAIM}.spec.dataSourceRef.name: Required value",
                f'{CLAIM}.spec.dataSourceRef.apiGroup: Invalid value: "A B": {SUBDOMAIN}',
                f"{CLAIM}.spec: Invalid value: {{}}: must match dataSourceRef",
            ],
        ),
        (
            "ephemeral",
            claimed(
                dataSource={"apiGroup": "a.b", "kind": "x", "name": "n"},
                dataSourceRef={"apiGroup": "a.b", "kind": "x", "name": "n", "namespace": "A"},
            ),
            [
                f'{CLAIM}.spec.dataSourceRef.namespace: Invalid value: "A": {LABEL}',
                f"{CLAIM}.spec: Invalid value: {{}}: may not be specified when dataSourceRef.namespace is specified",
            ],
        ),
    ],
)
def test_a_source_with_mistakes_is_refused(api: Served, name: str, source: Json, mistakes: list[str]) -> None:
    spec = {"containers": [{"name": "c", "image": "i"}], "volumes": [{"name": "v", name: source}]}
    answer = api.post(PODS, {"metadata": {"name": "p"}, "spec": spec})
    found = [f"{each['field']}: {each['message']}" for each in answer.body["details"]["causes"]]
    assert len(found) == len(mistakes), found
    for cause, start in zip(found, mistakes, strict=True):
        assert cause.startswith(f"spec.volumes[0].{start}")


def files(*paths: str) -> list[Json]:
    return [{"key": "k", "path": path} for path in paths]


@pytest.mark.parametrize(
    ("source", "warnings"),
    [
        (
            {"configMap": {"name": "m", "items": files("a", "a/b", "c", "ab")}},
            ['volume "v" (ConfigMap "m"): overlapping paths: "a/b" with "a"'],
        ),
        (
            {"secret": {"secretName": "m", "items": files("a/b", "a", "a/")}},
            [
                'volume "v" (Secret "m"): overlapping paths: "a" with "a/b"',
                'volume "v" (Secret "m"): overlapping paths: "a" with "a"',
            ],
        ),
        (
            {
                "projected": {
                    "sources": [
                        {"configMap": {"name": "m", "items": files("a")}},
                        {"secret": {"name": "s", "items": files("a/b")}},
                        {"serviceAccountToken": {"path": "a/c"}},
                        # Off by default, and dropped.
                        {"clusterTrustBundle": {"path": "x"}},
                    ]
                }
            },
            [
                'volume "v" (Projected): overlapping paths: "a/b" (Secret "s") with "a" (ConfigMap "m")',
                'volume "v" (Projected): overlapping paths: "a/c" (ServiceAccountToken) with "a" (ConfigMap "m")',
                'volume "v" (Projected) has no sources provided',
            ],
        ),
        (
            {"ephemeral": claimed(resources={"requests": {"storage": "100m"}})},
            [
                (
                    f"spec.volumes[0].{CLAIM}.spec.resources.requests[storage]: "
                    'fractional byte value "100m" is invalid, must be an integer'
                )
            ],
        ),
    ],
)
def test_files_that_hide_others_are_warned_of(api: Served, source: Json, warnings: list[str]) -> None:
    spec = {"containers": [{"name": "c", "image": "i"}], "volumes": [{"name": "v", **source}]}
    answer = api.post(PODS, {"metadata": {"name": "p"}, "spec": {**spec, "serviceAccountName": "default"}})
    assert answer.code == 201
    told = (each.replace('"', '\\"') for each in warnings)
    assert answer.headers["warning"] == ", ".join(f'299 - "{each}"' for each in told)


def test_many_files_that_hide_nothing_take_no_time(api: Served) -> None:
    """To compare each of 30,000 with each would take minutes."""
    items = files(*(f"{number:x}/f" for number in range(30_000)))
    volumes = [{"name": "v", "configMap": {"name": "m", "items": items}}]
    spec = {"containers": [{"name": "c", "image": "i"}], "volumes": volumes}
    assert "warning" not in api.post(PODS, {"metadata": {"name": "p"}, "spec": spec}).headers
