"""ConfigMaps, Secrets, tokens and volumes of every kind, from the API into a process and into a container.

Both run the same pod on a cluster of one node; what differs is the runtime.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.live.cluster import PODS, LiveCluster, pod
from tests.live.containerd import IMAGE, Containerd

NAMESPACE = "/api/v1/namespaces/default"
MAPS, SECRETS, ACCOUNTS = (f"{NAMESPACE}/{kind}" for kind in ("configmaps", "secrets", "serviceaccounts"))
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
TOKENS = "/var/run/secrets/kubernetes.io/serviceaccount"
Json = dict[str, Any]

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts and containers take root")

# What the pod has told, one line each, in the order in which it was asked.
TELL = """
for file in /conf/app.conf /etc/app/one.conf /secret/deep/password /pod/labels /pod/cpu /all/name /all/ca.crt; do
  echo "$file=$(head -n 1 $file)"
done
echo "modes=$(stat -L -c %a /secret/deep/password),$(stat -L -c %a /conf/app.conf)"
echo "variables=$ONE,$TWO,$M_key,$NODE,$ACCOUNT"
echo "server=$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT"
(echo x > /conf/no) 2> /dev/null && echo "/conf is writable"
(echo x > /host/no) 2> /dev/null && echo "/host is writable"
echo mine > /work/file && echo "/work is writable"
echo mine > /memory/file && echo "/memory is $(stat -f -c %T /memory)"
echo "part=$(cat /part/kept)"
echo told
exec sleep 600
"""


def whole(image: str) -> Json:
    """A pod with all kinds of volumes and variables."""
    prepare = "mkdir -p /work/part; echo part > /work/part/kept"
    mounts = {
        "conf": "/conf",
        "secret": "/secret",
        "pod": "/pod",
        "all": "/all",
        "work": "/work",
        "memory": "/memory",
        "host": "/host",
        "access": TOKENS,
    }
    listed: list[Json] = [{"name": name, "mountPath": path} for name, path in mounts.items()]
    listed[6]["readOnly"] = True
    listed += [
        {"name": "conf", "mountPath": "/etc/app/one.conf", "subPath": "app.conf"},
        {"name": "work", "mountPath": "/part", "subPath": "part"},
    ]
    document = pod("whole", ["/bin/sh", "-c", TELL], container={"image": image, "volumeMounts": listed})
    container = document["spec"]["containers"][0]
    container["env"] = [
        {"name": "ONE", "valueFrom": {"secretKeyRef": {"name": "s", "key": "password"}}},
        {"name": "TWO", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "key"}}},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "ACCOUNT", "valueFrom": {"fieldRef": {"fieldPath": "spec.serviceAccountName"}}},
    ]
    container["envFrom"] = [{"prefix": "M_", "configMapRef": {"name": "m"}}]
    # It runs where the volumes are seen.
    container["readinessProbe"] = {
        "exec": {"command": ["cat", "/conf/app.conf"]},
        "periodSeconds": 1,
        "timeoutSeconds": 20,
    }
    container["resources"] = {"limits": {"cpu": "1500m"}}
    first = {"name": "first", "image": image, "command": ["/bin/sh", "-c", prepare], "volumeMounts": [listed[4]]}
    document["spec"]["initContainers"] = [first]
    document["spec"]["automountServiceAccountToken"] = False
    document["spec"]["volumes"] = [
        {"name": "conf", "configMap": {"name": "m"}},
        {
            "name": "secret",
            "secret": {"secretName": "s", "items": [{"key": "password", "path": "deep/password", "mode": 0o400}]},
        },
        {
            "name": "pod",
            "downwardAPI": {
                "items": [
                    {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
                    {"path": "cpu", "resourceFieldRef": {"containerName": "main", "resource": "limits.cpu"}},
                ]
            },
        },
        {
            "name": "all",
            "projected": {
                "sources": [
                    {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
                    {"configMap": {"name": "kube-root-ca.crt"}},
                    {"secret": {"name": "none", "optional": True}},
                ]
            },
        },
        {"name": "work", "emptyDir": {"sizeLimit": "10Mi"}},
        {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        {"name": "host", "hostPath": {"path": "/usr", "type": "Directory"}},
        {
            "name": "access",
            "projected": {
                "sources": [
                    {"serviceAccountToken": {"path": "token", "expirationSeconds": 600}},
                    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                ]
            },
        },
    ]
    return document


@pytest.fixture(scope="module", params=["process", "container"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    flags = ["--sync-frequency", "1s"]
    if request.param == "container":
        containerd: Containerd = request.getfixturevalue("containerd")
        flags += ["--cri-endpoint", containerd.endpoint]
    else:
        flags += ["--runtime", "host"]
    found = LiveCluster(tmp_path_factory.mktemp("v"), flags, count=1)
    found.start()
    try:
        found.create(MAPS, {"metadata": {"name": "m"}, "data": {"app.conf": "first", "key": "value"}})
        found.create(SECRETS, {"metadata": {"name": "s"}, "stringData": {"password": "p$(ONE)w"}})
        found.create(PODS, whole(IMAGE))
        yield found
    finally:
        found.stop()


def log(cluster: LiveCluster, name: str = "whole") -> str:
    code, found = cluster.served.ask("GET", f"{PODS}/{name}/log", None, cluster.served.token("admin"))
    return found.decode() if code == 200 else ""


def shown(cluster: LiveCluster, path: str, pod_name: str = "whole") -> str:
    """A file of a volume as it is on the node; the first part of the path is the volume's name."""
    uid = cluster.pod(pod_name)["metadata"]["uid"]
    found = list(cluster.state.glob(f"**/pods/{uid}/volumes/{path}"))
    return found[0].read_text() if found else ""


def test_a_pod_sees_all_of_it(cluster: LiveCluster) -> None:
    cluster.ready(f"{PODS}/whole")
    cluster.wait(lambda: "told" in log(cluster), "the pod to tell")
    node = cluster.nodes[0]
    assert log(cluster).splitlines() == [
        "/conf/app.conf=first",
        "/etc/app/one.conf=first",
        "/secret/deep/password=p$(ONE)w",
        '/pod/labels=app="whole"',
        "/pod/cpu=2",
        "/all/name=whole",
        "/all/ca.crt=-----BEGIN CERTIFICATE-----",
        "modes=400,644",
        f"variables=p$(ONE)w,value,value,{node},default",
        f"server=127.0.0.1:{cluster.port}",
        "/work is writable",
        "/memory is tmpfs",
        "part=part",
        "told",
    ]


def test_a_change_reaches_the_files_and_no_secret_the_records(cluster: LiveCluster) -> None:
    cluster.ready(f"{PODS}/whole")
    code, _ = cluster.served.call(
        "PUT", f"{MAPS}/m", {"metadata": {"name": "m"}, "data": {"app.conf": "second", "key": "v"}}
    )
    assert code == 200
    cluster.wait(lambda: shown(cluster, "conf/app.conf") == "second", "the new file")
    node = cluster.state / "node" / cluster.nodes[0]
    kept = [path for path in node.rglob("*") if path.is_file() and "files" not in path.parts]
    assert kept
    assert not [path for path in kept if b"p$(ONE)w" in path.read_bytes()]


def test_a_token_is_the_pods_and_ends_with_it(cluster: LiveCluster) -> None:
    cluster.ready(f"{PODS}/whole")
    token = shown(cluster, "access/token")
    code, found = cluster.served.call("POST", WHO, {}, token=token)
    assert code == 201
    user = found["status"]["userInfo"]
    assert user["username"] == "system:serviceaccount:default:default"
    assert user["extra"]["authentication.kubernetes.io/pod-name"] == ["whole"]
    assert cluster.served.call("GET", SECRETS, token=token)[0] == 403


def test_what_is_missing_leaves_it_pending_until_it_comes(cluster: LiveCluster) -> None:
    """A volume and a variable wait, each with the words of a kubelet, and neither fails."""
    volume = pod("volume", ["sleep", "600"], container={"image": IMAGE}, restartPolicy="Never")
    volume["spec"]["volumes"] = [{"name": "v", "secret": {"secretName": "later"}}]
    variable = pod("variable", ["sleep", "600"], container={"image": IMAGE}, restartPolicy="Never")
    reference = {"secretKeyRef": {"name": "later", "key": "k"}}
    variable["spec"]["containers"][0]["env"] = [{"name": "A", "valueFrom": reference}]
    for document in (volume, variable):
        cluster.create(PODS, document)

    def told(name: str, reason: str) -> str:
        events = cluster.get(f"{NAMESPACE}/events")["items"]
        found = [each for each in events if each["involvedObject"]["name"] == name and each["reason"] == reason]
        return str(found[0]["message"]) if found else ""

    said = cluster.wait(lambda: told("volume", "FailedMount"), "the event of a volume")
    assert said == 'MountVolume.SetUp failed for volume "v" : secret "later" not found'
    assert cluster.wait(lambda: told("variable", "Failed"), "the event") == 'Error: secret "later" not found'
    waiting = cluster.wait(lambda: _waiting(cluster.pod("variable")), "the status")
    assert (waiting["reason"], waiting["message"]) == ("CreateContainerConfigError", 'secret "later" not found')
    assert cluster.pod("volume")["status"]["phase"] == "Pending"
    cluster.create(SECRETS, {"metadata": {"name": "later"}, "stringData": {"k": "v"}})
    for name in ("volume", "variable"):
        cluster.ready(f"{PODS}/{name}")


def _waiting(document: Json) -> Json:
    statuses = document["status"].get("containerStatuses") or [{}]
    found: Json = statuses[0].get("state", {}).get("waiting") or {}
    return found if found.get("message") else {}


def test_links_of_a_pod_lead_nowhere(cluster: LiveCluster) -> None:
    """An init container leaves links in a volume; as parts of the volume they do not lead out of it."""
    lay = "ln -s /etc /own/out; ln -s ../../../../../../etc/passwd /own/up; mkdir /own/in; ln -s in /own/back"
    own = {"name": "own", "mountPath": "/own"}
    for name in ("out", "up", "back"):
        mount = {"name": "own", "mountPath": "/seen", "subPath": name}
        command = ["/bin/sh", "-c", "ls /seen/hostname /seen/passwd; echo inside; sleep 600"]
        document = pod(name, command, container={"image": IMAGE, "volumeMounts": [mount]}, restartPolicy="Never")
        document["spec"]["volumes"] = [{"name": "own", "emptyDir": {}}]
        first = {"name": "first", "image": IMAGE, "command": ["/bin/sh", "-c", lay], "volumeMounts": [own]}
        document["spec"]["initContainers"] = [first]
        cluster.create(PODS, document)
    cluster.wait(lambda: "inside" in log(cluster, "back"), "the link that stays inside")
    for name in ("out", "up"):
        cluster.wait(partial(_has_failed, cluster, name), "the refusal")
        assert "inside" not in log(cluster, name)
    assert not [line for line in log(cluster, "back").splitlines() if line.startswith("/seen/")]


def test_a_read_only_volume_is_read_only_by_every_way(cluster: LiveCluster) -> None:
    """Its mount, the link in the working directory and the variable; written elsewhere in the pod, it is seen."""
    write = (
        "for at in /kept kept $JETTISON_VOLUME_KEPT /conf conf $JETTISON_VOLUME_CONF both; do touch $at/x 2>&1; done"
    )
    command = ["/bin/sh", "-c", f"{write}; touch /open/y && ls /both; cat /kept/first; sleep 600"]
    kept, conf = {"name": "kept", "mountPath": "/kept"}, {"name": "conf", "mountPath": "/conf"}
    both = {"name": "both", "mountPath": "/both", "readOnly": True}
    mounts = [{**kept, "readOnly": True}, conf, both, {"name": "both", "mountPath": "/open"}]
    document = pod("sealed", command, container={"image": IMAGE, "volumeMounts": mounts}, restartPolicy="Never")
    document["spec"]["volumes"] = [
        {"name": "kept", "emptyDir": {}},
        {"name": "both", "emptyDir": {}},
        {"name": "conf", "configMap": {"name": "m"}},
    ]
    fill = ["/bin/sh", "-c", "echo written > /kept/first"]
    document["spec"]["initContainers"] = [{"name": "first", "image": IMAGE, "command": fill, "volumeMounts": [kept]}]
    cluster.create(PODS, document)
    cluster.wait(lambda: "written" in log(cluster, "sealed"), "the end of the attempts")
    told = log(cluster, "sealed").splitlines()
    # In a container the working directory is the root, and the variables are not set.
    refused = 5 if "--cri-endpoint" in cluster.flags else 7
    assert sum("Read-only file system" in line for line in told) == refused, told
    assert told[-2:] == ["y", "written"]


def _has_failed(cluster: LiveCluster, name: str) -> bool:
    return bool(cluster.pod(name)["status"]["phase"] == "Failed")


def test_a_node_reads_what_its_pods_refer_to(cluster: LiveCluster) -> None:
    cluster.ready(f"{PODS}/whole")
    cluster.create(SECRETS, {"metadata": {"name": "foreign"}})
    tokens = json.loads((cluster.state / "cluster" / "tokens.json").read_text())["tokens"]
    token = next(each["token"] for each in tokens if each["user"] == f"system:node:{cluster.nodes[0]}")
    assert cluster.served.call("GET", f"{SECRETS}/s", token=token)[0] == 200
    for path in (f"{SECRETS}/foreign", SECRETS, "/api/v1/secrets"):
        assert cluster.served.call("GET", path, token=token)[0] == 403
    body: Json = {"spec": {"audiences": [], "boundObjectRef": None}}
    assert cluster.served.call("POST", f"{ACCOUNTS}/default/token", body, token=token)[0] == 403
