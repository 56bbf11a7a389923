"""Of pods: what Kubernetes fills in, what it refuses and what it warns of, one line per rule. Texts are its own."""

from __future__ import annotations

from typing import Any

import pytest

from jettison.apiserver.objects.defaults import default_pod, merge_label_keys
from jettison.apiserver.objects.schema import read_document
from jettison.apiserver.objects.validation.pod.pod_statuses import validate_pod_status
from jettison.apiserver.objects.validation.pod.pods import (
    validate_ephemeral_update,
    validate_pod,
    validate_resize,
)
from jettison.apiserver.objects.warnings import pod_warnings

Json = dict[str, Any]

ANTI = "podAntiAffinity"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def pod(status: Json | None = None, **spec: Any) -> Json:
    """A pod as it is after defaulting."""
    whole = {"containers": [{"name": "c", "image": "i"}], **spec}
    value, unknown = read_document("Pod", {"metadata": {"name": "p"}, "spec": whole, "status": status or {}})
    assert not unknown
    default_pod(value)
    return value


def one(**rest: Any) -> list[Json]:
    return [{"name": "c", "image": "i", **rest}]


def init(**rest: Any) -> list[Json]:
    return [{"name": "i", "image": "i", **rest}]


def found(value: Any, path: str) -> Any:
    for step in path.split("."):
        value = value[int(step)] if isinstance(value, list) else value.get(step)
    return value


DEFAULTS: list[tuple[Json, str, Any]] = [
    ({"containers": one(lifecycle={"preStop": {"httpGet": {"port": 80}}})}, "containers.0.lifecycle.preStop.httpGet",
     {"port": 80, "path": "/", "scheme": "HTTP"}),
    ({"serviceAccountName": "a"}, "serviceAccount", "a"),
    ({"serviceAccount": "b"}, "serviceAccountName", "b"),
    ({"containers": one(image="")}, "containers.0.imagePullPolicy", "IfNotPresent"),
    ({"containers": one(image="a/B")}, "containers.0.imagePullPolicy", "IfNotPresent"),
    ({"containers": one(image="h:5/a/b")}, "containers.0.imagePullPolicy", "Always"),
    ({"containers": one(image="a:latest")}, "containers.0.imagePullPolicy", "Always"),
    ({"containers": one(image="a:1")}, "containers.0.imagePullPolicy", "IfNotPresent"),
    ({"containers": one(livenessProbe={"exec": {"command": ["x"]}, "periodSeconds": 0})},
     "containers.0.livenessProbe.periodSeconds", 10),
    ({"containers": one(resources={"limits": {"cpu": "100u"}})}, "containers.0.resources.limits.cpu", "1m"),
    ({"volumes": [{"name": "v", "downwardAPI": {"items": [{"path": "a", "fieldRef": {"fieldPath": "b"}}]}}]},
     "volumes.0.downwardAPI.items.0.fieldRef.apiVersion", "v1"),
    ({"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]},
     "volumes.0.projected.sources.0.serviceAccountToken.expirationSeconds", 3600),
    ({"volumes": [{"name": "v", "image": {"reference": "a"}}]}, "volumes.0.image.pullPolicy", "Always"),
    ({"resources": {"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}},
      "containers": one(resources={"limits": {"cpu": "2"}})}, "resources.requests", {"memory": "1Gi", "cpu": "2"}),
    ({"hostNetwork": True, "containers": one(ports=[{"containerPort": 80}])}, "containers.0.ports.0.hostPort", 80),
]  # fmt: skip


def test_what_a_pod_has_got_is_rounded() -> None:
    fine, coarse = {"cpu": "100u", "memory": "1"}, {"cpu": "1m", "memory": "1"}
    of_one = {"name": "c", "ready": True, "restartCount": 0, "image": "", "imageID": ""}
    of_one |= {"allocatedResources": fine, "resources": {"requests": fine}}
    status = pod({"resources": {"limits": fine}, "allocatedResources": fine, "containerStatuses": [of_one]})["status"]
    assert (status["resources"]["limits"], status["allocatedResources"]) == (coarse, coarse)
    rounded = status["containerStatuses"][0]
    assert (rounded["allocatedResources"], rounded["resources"]["requests"]) == (coarse, coarse)


@pytest.mark.parametrize(("spec", "path", "expected"), DEFAULTS, ids=[path for _, path, _ in DEFAULTS])
def test_defaults(spec: Json, path: str, expected: Any) -> None:
    assert found(pod(**spec)["spec"], path) == expected


def test_keys_of_labels_become_expressions() -> None:
    term = {"topologyKey": "z", "labelSelector": {}, "matchLabelKeys": ["a"], "mismatchLabelKeys": ["b", "absent"]}
    spec = pod(affinity={ANTI: {REQUIRED: [term]}})["spec"]
    merge_label_keys(spec, {"a": "1", "b": "2"})
    made = spec["affinity"][ANTI][REQUIRED][0]["labelSelector"]["matchExpressions"]
    assert [(each["key"], each["operator"], each["values"]) for each in made] == [
        ("a", "In", ["1"]), ("b", "NotIn", ["2"]),
    ]  # fmt: skip


def _spread(**rest: Any) -> Json:
    constraint = {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule", **rest}
    return {"topologySpreadConstraints": [constraint]}


REFUSED: list[tuple[Json, str]] = [
    ({"initContainers": init(readinessProbe={"exec": {"command": ["x"]}})},
     "initContainers[0].readinessProbe: Forbidden: may not be set for init containers without restartPolicy=Always"),
    ({"initContainers": init(lifecycle={})},
     "spec.initContainers[0].lifecycle: Forbidden: may not be set for init containers without restartPolicy=Always"),
    ({"initContainers": init(name="c")}, 'spec.initContainers[0].name: Duplicate value: "c"'),
    ({"containers": one(lifecycle={"preStop": {"sleep": {"seconds": 31}}})},
     "preStop.sleep: Invalid value: 31: must be non-negative and less than terminationGracePeriodSeconds (30)"),
    ({"containers": one(lifecycle={"postStart": {}})},
     "spec.containers[0].lifecycle.postStart: Required value: must specify a handler type"),
    ({"containers": one(livenessProbe={"grpc": {"port": 1}, "successThreshold": 2})},
     "spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1"),
    ({"containers": one(readinessProbe={"tcpSocket": {"port": 0}})},
     "spec.containers[0].readinessProbe.tcpSocket.port: Invalid value: 0: must be between 1 and 65535, inclusive"),
    ({"containers": one(restartPolicyRules=[{"action": "Restart"}])},
     "spec.containers[0].restartPolicy: Required value: must specify restartPolicy when restart rules are used"),
    ({"containers": one(ports=[{"containerPort": 1, "hostPort": 2}, {"containerPort": 3, "hostPort": 2}])},
     'spec.containers[0].ports[1].hostPort: Duplicate value: "TCP//2"'),
    ({"hostNetwork": True, "containers": one(ports=[{"containerPort": 1, "hostPort": 2}])},
     "spec.containers[0].ports[0].hostPort: Invalid value: 2: must match `containerPort` when `hostNetwork` is true"),
    ({"containers": one(envFrom=[{}])},
     'spec.containers[0].envFrom: Invalid value: "": must specify one of: `configMapRef` or `secretRef`'),
    ({"containers": one(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.x"}}}])},
     "error converting fieldPath: field label not supported: spec.x"),
    ({"containers": one(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.phase"}}}])},
     'valueFrom.fieldRef.fieldPath: Unsupported value: "status.phase": supported values: "metadata.name"'),
    ({"containers": one(securityContext={"runAsUser": -1})},
     "securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive"),
    ({"containers": one(securityContext={"seccompProfile": {"type": "Localhost"}})},
     "localhostProfile: Required value: must be set when seccomp type is Localhost"),
    ({"containers": one(resources={"limits": {"hugepages-2Mi": "3Mi", "cpu": "1"}})},
     '[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of hugepages-2Mi'),
    ({"containers": one(resources={"claims": [{"name": "x"}]})},
     'resources.claims[0]: Not found: "x": must be one of the names in pod.spec.resourceClaims which is empty'),
    ({"resources": {"requests": {"cpu": "1"}}, "containers": one(resources={"requests": {"cpu": "2"}})},
     'spec.resources.requests[cpu]: Invalid value: "1": must be greater than or equal to aggregate container requests'),
    ({"resources": {"limits": {"ephemeral-storage": "1"}}},
     'Unsupported value: "ephemeral-storage": supported values: "cpu", "hugepages-", "memory"'),
    ({"dnsPolicy": "None"}, "spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"),
    ({"dnsConfig": {"nameservers": ["1.2.3.400"]}}, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
    ({"hostAliases": [{"ip": "x"}]}, 'spec.hostAliases[0].ip: Invalid value: "x"'),
    ({"affinity": {ANTI: {REQUIRED: [{"topologyKey": ""}]}}}, "topologyKey: Required value: can not be empty"),
    (_spread(maxSkew=0), "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero"),
    (_spread(matchLabelKeys=["a"]), "Forbidden: must not be specified when labelSelector is not set"),
    (_spread(minDomains=1, whenUnsatisfiable="ScheduleAnyway"),
     "minDomains: Invalid value: 1: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway"),
    ({"ephemeralContainers": [{"name": "d", "image": "i"}]}, "ephemeralContainers: Forbidden: cannot be set on create"),
    ({"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]},
     "serviceAccountToken: Forbidden: must not be specified when serviceAccountName is not set"),
    ({"volumes": [{"name": "v", "configMap": {}}]}, "spec.volumes[0].configMap.name: Required value"),
    ({"volumes": [{"name": "v", "secret": {"secretName": "s", "defaultMode": 512}}]},
     "spec.volumes[0].secret.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal)"),
    ({"hostUsers": False, "hostPID": True}, "spec.HostPID: Forbidden: when `hostUsers` is false"),
    ({"os": {"name": "plan9"}}, 'spec.os: Unsupported value: "plan9": supported values: "linux", "windows"'),
    ({"runtimeClassName": "A"}, 'spec.runtimeClassName: Invalid value: "A"'),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "text"), REFUSED, ids=[text for _, text in REFUSED])
def test_what_is_refused(spec: Json, text: str) -> None:
    assert any(text in str(each) for each in validate_pod(pod(**spec))), list(map(str, validate_pod(pod(**spec))))


def test_a_volume_with_a_mistake_is_not_found() -> None:
    value = pod(
        volumes=[{"name": "v", "hostPath": {}}], containers=one(volumeMounts=[{"name": "v", "mountPath": "/v"}])
    )
    assert [str(each) for each in validate_pod(value)] == [
        "spec.volumes[0].hostPath.path: Required value",
        'spec.containers[0].volumeMounts[0].name: Not found: "v"',
    ]


ENDED = {"name": "c", "state": {"terminated": {"exitCode": 0}}, "ready": False, "restartCount": 0, "image": "i"}
RUNNING = {**ENDED, "state": {"running": {}}}
CLAIMED = {"resourceClaims": [{"name": "a", "resourceClaimName": "x"}]}
MAPPING = {"containerName": "c", "resourceName": "cpu", "requestName": "r"}


def allocated(name: str, **device: Any) -> Json:
    return {**RUNNING, "allocatedResourcesStatus": [{"name": name, "resources": [{"resourceID": "d", **device}]}]}


ASKING = {"containers": one(resources={"requests": {"cpu": "1"}})}


@pytest.mark.parametrize(
    ("new", "old", "spec", "text"),
    [
        ({"podIP": "bad"}, {}, {}, 'status.podIPs[0]: Invalid value: "bad": must be a valid IP address'),
        (
            {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}]}, {}, {},
            'Invalid value: [{"IP":"10.0.0.1"},{"IP":"10.0.0.2"}]: may specify no more than one IP for each IP family',
        ),
        ({"hostIPs": [{"ip": "10.0.0.1"}]}, {}, {}, "must be equal to `hostIP`"),
        (
            {"containerStatuses": [RUNNING]}, {"containerStatuses": [ENDED]}, {"restartPolicy": "Never"},
            "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state",
        ),
        ({"containerStatuses": [RUNNING]}, {"containerStatuses": [ENDED]}, {}, ""),
        ({"podIP": "010.0.0.1"}, {}, {}, 'status.podIPs[0]: Invalid value: "010.0.0.1": must not have leading 0s'),
        (
            {"resourceClaimStatuses": [{"name": "a"}, {"name": "a"}]}, {}, CLAIMED,
            'status.resourceClaimStatuses[1].name: Duplicate value: "a"',
        ),
        (
            {"resourceClaimStatuses": [{"name": "a", "resourceClaimName": "B_"}]}, {}, CLAIMED,
            'status.resourceClaimStatuses[0].resourceClaimName: Invalid value: "B_": a lowercase RFC 1123 subdomain',
        ),
        (
            {"extendedResourceClaimStatus": {"resourceClaimName": "x"}}, {}, {},
            "status.extendedResourceClaimStatus.requestMappings: Required value: at least one request mapping is",
        ),
        ({"extendedResourceClaimStatus": {"resourceClaimName": "x", "requestMappings": [MAPPING]}}, {}, ASKING, ""),
        (
            {"extendedResourceClaimStatus": {"resourceClaimName": "", "requestMappings": [MAPPING]}}, {}, ASKING,
            "status.extendedResourceClaimStatus.resourceClaimName: Required value",
        ),
        (
            {"extendedResourceClaimStatus": {"resourceClaimName": "x", "requestMappings": [MAPPING]}}, {}, {},
            'requestMappings[0].resourceName: Invalid value: "cpu": must match the extended resource name of an entry',
        ),
        (
            {"initContainerStatuses": [{**RUNNING, "user": {"linux": {"uid": 0, "gid": -1}}}]}, {}, {},
            "status.initContainerStatuses[0].user.linux.gid: Invalid value: -1: must be between 0 and 2147483647",
        ),
        ({"containerStatuses": [allocated("cpu", health="Healthy")]}, {}, ASKING, ""),
        (
            {"containerStatuses": [allocated("memory", health="Healthy")]}, {}, ASKING,
            "Status[0].name: Invalid value: \"memory\": must match one of the container's resource requests",
        ),
        (
            {"containerStatuses": [allocated("cpu", health="Ill")]}, {}, ASKING,
            'resources[0].health: Unsupported value: "Ill": supported values: "Healthy", "Unhealthy", "Unknown"',
        ),
        (
            {"containerStatuses": [allocated("cpu", health="Healthy", message="")]}, {}, ASKING,
            "resources[0].message: Required value: must be non-empty if specified",
        ),
        (
            {"ephemeralContainerStatuses": [allocated("cpu", health="Healthy")]}, {}, {},
            "allocatedResourcesStatus: Forbidden: must not be specified in container status",
        ),
    ],
)  # fmt: skip
def test_statuses(new: Json, old: Json, spec: Json, text: str) -> None:
    mistakes = [str(each) for each in validate_pod_status(pod(new, **spec), pod(old, **spec))]
    assert [text in each for each in mistakes] == ([True] if text else []), mistakes


def test_debugging_containers_are_only_added() -> None:
    debug = {"name": "d", "image": "i", "targetContainerName": "c"}
    with_one = pod(ephemeralContainers=[debug])
    assert not list(validate_ephemeral_update(with_one, pod()))
    (removed,) = map(str, validate_ephemeral_update(pod(), with_one))
    assert 'existing ephemeral containers "d" may not be removed' in removed
    (changed,) = map(str, validate_ephemeral_update(pod(ephemeralContainers=[{**debug, "image": "j"}]), with_one))
    assert '- "Image": "i",\n+ "Image": "j",' in changed
    wrong = pod(ephemeralContainers=[{**debug, "targetContainerName": "x", "ports": [{"containerPort": 1}]}])
    assert [str(each) for each in validate_ephemeral_update(wrong, pod())] == [
        'spec.ephemeralContainers[0].targetContainerName: Not found: "x"',
        "spec.ephemeralContainers[0].ports: Forbidden: cannot be set for an Ephemeral Container",
    ]


def _sized(**amounts: str) -> Json:
    return pod({"qosClass": "Burstable"}, containers=one(resources={"requests": amounts}))


def test_resizing() -> None:
    assert not list(validate_resize(_sized(cpu="2"), _sized(cpu="1")))
    (class_change,) = map(
        str, validate_resize(pod(containers=one(resources={"requests": {"cpu": "1"}})), pod({"qosClass": "BestEffort"}))
    )
    assert class_change == 'spec: Invalid value: "BestEffort": Pod QOS Class may not change as a result of resizing'
    assert "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed" in map(
        str, validate_resize(_sized(cpu="1"), _sized(cpu="1", memory="1"))
    )
    assert "spec: Forbidden: only cpu and memory resources are mutable" in map(
        str, validate_resize(_sized(**{"cpu": "1", "ephemeral-storage": "1"}), _sized(cpu="1"))
    )


SAME_NAME = (
    'spec.containers[1].ports[0]: duplicate port name "http" with spec.containers[0].ports[0], services and '
    "probes that select ports by name will use spec.containers[0].ports[0]"
)
WARNED: list[tuple[Json, list[str]]] = [
    (
        {"containers": [*one(ports=[{"containerPort": 80, "name": "http"}]),
                        {"name": "d", "image": "i", "ports": [{"containerPort": 80, "name": "http"}]}]},
        ["spec.containers[1].ports[0]: duplicate port definition with spec.containers[0].ports[0]", SAME_NAME],
    ),
    (_spread(), ["spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod"]),
    ({"containers": one(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}])},
     ['spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply']),
    ({"containers": one(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}])}, []),
    ({"nodeSelector": {"beta.kubernetes.io/os": "linux"}},
     ['spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead']),
    ({"volumes": [{"name": "v", "gitRepo": {"repository": "r"}}]},
     ["spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+"]),
    ({"hostAliases": [{"ip": "010.0.0.1"}]},
     ['spec.hostAliases[0].ip: non-standard IP address "010.0.0.1" is invalid: use "10.0.0.1"']),
    ({"containers": one(resources={"limits": {"memory": "1500m"}, "requests": {"memory": "1"}})},
     ['spec.containers[0].resources.limits[memory]: fractional byte value "1500m" is invalid, must be an integer']),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "texts"), WARNED)
def test_warnings(spec: Json, texts: list[str]) -> None:
    assert list(pod_warnings(pod(**spec), "")) == texts


def test_a_negative_grace_period_is_warned_of_in_templates() -> None:
    """A pod has 1 s instead before anything looks at it."""
    template = pod()
    template["spec"]["terminationGracePeriodSeconds"] = -1
    why = "must be >= 0; negative values are invalid and will be treated as 1"
    assert list(pod_warnings(template, "spec.template")) == [f"spec.template.spec.terminationGracePeriodSeconds: {why}"]
    assert pod(terminationGracePeriodSeconds=-1)["spec"]["terminationGracePeriodSeconds"] == 1
