"""Pods, and the specs of pods in templates, with their containers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from jettison.apiserver.objects.validation.metadata import (
    NameRule,
    label_name,
    port_name,
    subdomain_name,
    validate_labels,
)
from jettison.apiserver.objects.validation.mistakes import Mistake, duplicate, forbidden, invalid, required, unsupported
from jettison.apiserver.objects.validation.pod_updates import restored_affinity, spec_difference, validate_narrowing
from jettison.apiserver.objects.validation.resources import validate_requirements
from jettison.apiserver.objects.validation.small_kinds import EFFECTS
from jettison.engine.labels.syntax import label_key_complaints, label_value_complaints
from jettison.engine.numbers.quantity import parse

Json = dict[str, Any]

_MIRROR: Final = "kubernetes.io/config.mirror"
_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_UPDATE_RULE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n"
)

# Of two sources in one volume the first of this list is the one that counts.
_SOURCES: Final = (
    "emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi",
    "glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI", "fc",
    "flexVolume", "configMap", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk",
    "storageos", "projected", "scaleIO", "csi", "ephemeral", "image",
)  # fmt: skip
_HOST_PATH_TYPES: Final = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket",
)  # fmt: skip

_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_MESSAGE_POLICIES: Final = ("File", "FallbackToLogsOnError")
_HANDLERS: Final = ("exec", "grpc", "httpGet", "sleep", "tcpSocket")


def validate_pod(pod: Json) -> Iterator[Mistake]:
    """A new pod."""
    yield from _validate_mirror(pod)
    yield from validate_pod_spec(pod["spec"], "spec")
    yield from _validate_blanks(pod["spec"])
    if pod["spec"].get("nodeName") and pod["spec"].get("schedulingGates"):
        yield forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")


def _validate_mirror(pod: Json) -> Iterator[Mistake]:
    """A mirror of a static pod must be bound to a node."""
    annotations = pod["metadata"].get("annotations") or {}
    if _MIRROR in annotations and not pod["spec"].get("nodeName"):
        why = "must set spec.nodeName if mirror pod annotation is set"
        yield invalid(f"metadata.annotations[{_MIRROR}]", annotations[_MIRROR], why)


def _validate_mirror_update(new: Json, old: Json) -> Iterator[Mistake]:
    """The annotation of a mirror may be neither added nor removed nor changed."""
    given, former = ((each["metadata"].get("annotations") or {}).get(_MIRROR) for each in (new, old))
    if given != former:
        word = "add" if former is None else "remove or update"
        yield forbidden(f"metadata.annotations[{_MIRROR}]", f"may not {word} mirror pod annotation")


def validate_pod_spec(spec: Json, field: str) -> Iterator[Mistake]:
    """The spec of a pod or of a template."""
    yield from validate_volumes(spec.get("volumes") or (), f"{field}.volumes")
    yield from validate_containers(spec, field)
    if spec["restartPolicy"] not in _RESTART_POLICIES:
        yield unsupported(f"{field}.restartPolicy", spec["restartPolicy"], _RESTART_POLICIES)
    if spec["dnsPolicy"] not in _DNS_POLICIES:
        yield unsupported(f"{field}.dnsPolicy", spec["dnsPolicy"], _DNS_POLICIES)
    yield from validate_labels(spec.get("nodeSelector") or {}, f"{field}.nodeSelector")
    yield from _validate_node_affinity(spec, field)
    yield from _validate_gates(spec, field)
    yield from _validate_name(spec, field, "serviceAccountName", subdomain_name)
    yield from _validate_name(spec, field, "nodeName", subdomain_name)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline < 2**31:
        yield invalid(f"{field}.activeDeadlineSeconds", deadline, "must be between 1 and 2147483647, inclusive")
    yield from _validate_name(spec, field, "hostname", label_name)
    yield from _validate_name(spec, field, "subdomain", label_name)
    yield from validate_tolerations(spec.get("tolerations") or [], f"{field}.tolerations")
    yield from _validate_name(spec, field, "priorityClassName", subdomain_name)


def _validate_blanks(spec: Json) -> Iterator[Mistake]:
    """No blanks around names of images; a template may have them, because its images may be replaced later."""
    for key in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(key) or ()):
            image = container.get("image", "")
            if image != image.strip():
                why = "must not have leading or trailing whitespace"
                yield invalid(f"spec.{key}[{index}].image", image, why)


def _validate_name(spec: Json, field: str, key: str, rule: NameRule) -> Iterator[Mistake]:
    if spec.get(key):
        yield from (invalid(f"{field}.{key}", spec[key], why) for why in rule(spec[key]))


def _validate_gates(spec: Json, field: str) -> Iterator[Mistake]:
    for index, each in enumerate(spec.get("readinessGates") or ()):
        kind = each.get("conditionType") or ""
        where = f"{field}.readinessGates[{index}].conditionType"
        yield from (invalid(where, kind, why) for why in label_key_complaints(kind))
    gates = _gates(spec)
    for index, gate in enumerate(gates):
        where = f"{field}.schedulingGates[{index}]"
        yield from (invalid(where, gate, why) for why in label_key_complaints(gate))
        if gate in gates[:index]:
            yield duplicate(where, gate)


def _validate_node_affinity(spec: Json, field: str) -> Iterator[Mistake]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    if key not in affinity:
        return
    where = f"{field}.affinity.nodeAffinity.{key}.nodeSelectorTerms"
    terms = affinity[key].get("nodeSelectorTerms")
    if not terms:
        yield required(where, "must have at least one node selector term")
    for index, term in enumerate(terms or ()):
        for part in ("matchExpressions", "matchFields"):
            for number, each in enumerate(term.get(part) or ()):
                yield from _validate_node_requirement(each, f"{where}[{index}].{part}[{number}]")


def _validate_node_requirement(requirement: Json, field: str) -> Iterator[Mistake]:
    operator, values = requirement["operator"], requirement.get("values") or ()
    if operator in ("In", "NotIn"):
        if not values:
            yield required(f"{field}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            yield forbidden(f"{field}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            yield required(f"{field}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
    else:
        yield invalid(f"{field}.operator", operator, "not a valid selector operator")
    key = requirement.get("key") or ""
    yield from (invalid(f"{field}.key", key, why) for why in label_key_complaints(key))
    for index, value in enumerate(values):
        yield from (invalid(f"{field}.values[{index}]", value, why) for why in label_value_complaints(value))


def validate_pod_update(new: Json, old: Json) -> Iterator[Mistake]:
    """A pod runs as it was made: only a few fields of its spec may change."""
    spec, former = new["spec"], old["spec"]
    yield from _validate_mirror_update(new, old)
    yield from validate_pod_spec(spec, "spec")
    yield from _validate_blanks(spec)
    for key in ("containers", "initContainers"):
        if len(spec.get(key) or ()) != len(former.get(key) or ()):
            yield forbidden(f"spec.{key}", "pod updates may not add or remove containers")
            return
        for index, container in enumerate(spec.get(key) or ()):
            if not container.get("image"):
                yield required(f"spec.{key}[{index}].image")
        yield from _validate_blanks({key: spec.get(key)})
    deadline = list(_validate_deadline(spec, former))
    yield from deadline
    if deadline and "activeDeadlineSeconds" in spec:
        return
    if _keeps_tolerations(spec, former):
        yield from validate_tolerations(spec.get("tolerations") or [], "spec.tolerations")
    else:
        yield forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")
    for index, gate in enumerate(_gates(spec)):
        if gate not in _gates(former):
            why = f"only deletion is allowed, but found new scheduling gate '{gate}'"
            yield forbidden(f"spec.schedulingGates[{index}].name", why)
    if _gates(former):
        yield from validate_narrowing(spec, former)
    restored = _restored(spec, former)
    # Only fields that Kubernetes knows count.
    if restored != former and (difference := spec_difference(former, restored)):
        yield forbidden("spec", _UPDATE_RULE + difference)


def validate_pod_status(new: Json, old: Json) -> Iterator[Mistake]:
    """Conditions must have names, and the QoS class is immutable."""
    status, former = new["status"], old["status"]
    for index, condition in enumerate(status.get("conditions") or ()):
        where = f"status.conditions[{index}]"
        if condition.get("observedGeneration", 0) < 0:
            why = "must be a non-negative integer"
            yield invalid(f"{where}.observedGeneration", condition["observedGeneration"], why)
        yield from (invalid(f"{where}.Type", condition["type"], why) for why in label_key_complaints(condition["type"]))
    nominated, before = status.get("nominatedNodeName", ""), former.get("nominatedNodeName", "")
    if nominated not in ("", before):
        yield from (invalid("status.nominatedNodeName", nominated, why) for why in subdomain_name(nominated))
        if old["spec"].get("nodeName"):
            yield forbidden("status.nominatedNodeName", "may not be set on pods that are already bound to a node")
    if status.get("observedGeneration", 0) < 0:
        yield invalid("status.observedGeneration", status["observedGeneration"], "must be a non-negative integer")
    if status.get("qosClass") != former.get("qosClass"):
        yield invalid("status.qosClass", status.get("qosClass"), "field is immutable")


def _validate_deadline(spec: Json, former: Json) -> Iterator[Mistake]:
    deadline, before = spec.get("activeDeadlineSeconds"), former.get("activeDeadlineSeconds")
    field = "spec.activeDeadlineSeconds"
    if deadline is None:
        if before is not None:
            yield invalid(field, None, "must not update from a positive integer to nil value")
    elif not 0 <= deadline < 2**31:
        yield invalid(field, deadline, "must be between 0 and 2147483647, inclusive")
    elif before is not None and deadline > before:
        yield invalid(field, deadline, "must be less than or equal to previous value")


def _gates(spec: Json) -> list[str]:
    return [each.get("name") or "" for each in spec.get("schedulingGates") or ()]


def _keeps_tolerations(spec: Json, former: Json) -> bool:
    def without_seconds(tolerations: Any) -> list[Json]:
        return [{k: v for k, v in each.items() if k != "tolerationSeconds"} for each in tolerations or ()]

    kept = without_seconds(spec.get("tolerations"))
    return all(each in kept for each in without_seconds(former.get("tolerations")))


def _restored(spec: Json, former: Json) -> Json:
    """The new spec with everything that may change set back to what it was."""
    restored = dict(spec)
    for key in ("containers", "initContainers"):
        if key in spec:
            pairs = zip(spec[key], former[key], strict=True)
            restored[key] = [{**each, "image": before.get("image")} for each, before in pairs]
    for key in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        _take(restored, former, key)
    if _gates(former):
        _take(restored, former, "nodeSelector")
        affinity = restored_affinity(spec, former)
        _take(restored, {} if affinity is None else {"affinity": affinity}, "affinity")
    if former.get("terminationGracePeriodSeconds", 0) < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        _take(restored, former, "terminationGracePeriodSeconds")
    return restored


def _take(target: Json, source: Json, key: str) -> None:
    if key in source:
        target[key] = source[key]
    else:
        target.pop(key, None)


def validate_volumes(volumes: Any, field: str) -> Iterator[Mistake]:
    """Those of a pod or of a template."""
    seen: set[str] = set()
    for index, volume in enumerate(volumes):
        where = f"{field}[{index}]"
        yield from _validate_source(volume, where)
        if not volume["name"]:
            yield required(f"{where}.name")
        else:
            yield from (invalid(f"{where}.name", volume["name"], why) for why in label_name(volume["name"]))
        if volume["name"] in seen:
            yield duplicate(f"{where}.name", volume["name"])
        seen.add(volume["name"])


def _validate_source(volume: Json, field: str) -> Iterator[Mistake]:
    sources = [each for each in _SOURCES if each in volume]
    if "emptyDir" in sources:
        limit = volume["emptyDir"].get("sizeLimit")
        if limit is not None and parse(limit).sign < 0:
            yield forbidden(f"{field}.emptyDir.sizeLimit", "SizeLimit field must be a valid resource quantity")
    elif "hostPath" in sources:
        yield from _validate_host_path(volume["hostPath"], f"{field}.hostPath")
    for extra in sources[1:]:
        yield forbidden(f"{field}.{extra}", "may not specify more than 1 volume type")


def _validate_host_path(source: Json, field: str) -> Iterator[Mistake]:
    path = source["path"]
    if not path:
        yield required(f"{field}.path")
        return
    if ".." in path.split("/"):
        yield invalid(f"{field}.path", path, "must not contain '..'")
    if source.get("type", "") not in _HOST_PATH_TYPES:
        yield unsupported(f"{field}.type", source["type"], _HOST_PATH_TYPES)


# Tolerations.
def validate_tolerations(tolerations: list[Json], field: str) -> Iterator[Mistake]:
    """All of them."""
    for index, each in enumerate(tolerations):
        yield from _validate_toleration(each, f"{field}[{index}]")


def _validate_toleration(toleration: Json, field: str) -> Iterator[Mistake]:
    key, operator, value = toleration.get("key", ""), toleration.get("operator", ""), toleration.get("value", "")
    effect = toleration.get("effect", "")
    if key:
        yield from (invalid(f"{field}.key", key, why) for why in label_key_complaints(key))
    elif operator != "Exists":
        why = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield invalid(f"{field}.operator", operator, why)
    if "tolerationSeconds" in toleration and effect != "NoExecute":
        yield invalid(f"{field}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
    if operator in ("", "Equal"):
        yield from (invalid(f"{field}.operator", value, why) for why in label_value_complaints(value))
    elif operator == "Exists":
        if value:
            yield invalid(f"{field}.operator", value, "value must be empty when `operator` is 'Exists'")
    elif operator in ("Lt", "Gt"):
        yield unsupported(f"{field}.operator", operator, ("Equal", "Exists", "Lt", "Gt"))
    else:
        yield unsupported(f"{field}.operator", operator, ("Equal", "Exists"))
    if effect and effect not in EFFECTS:
        yield unsupported(f"{field}.effect", effect, EFFECTS)


def validate_containers(spec: Json, field: str) -> Iterator[Mistake]:
    """Those of the main list, at least one, and those that run before them."""
    volumes = {volume["name"] for volume in spec.get("volumes") or ()}
    seen: set[str] = set()
    if not spec.get("containers"):
        yield required(f"{field}.containers")
    for index, each in enumerate(spec.get("containers") or ()):
        yield from _validate_container(each, f"{field}.containers[{index}]", volumes, seen)
    for index, each in enumerate(spec.get("initContainers") or ()):
        where = f"{field}.initContainers[{index}]"
        yield from _validate_container(each, where, volumes, seen)
        if each.get("restartPolicy") not in (None, "Always", "Never", "OnFailure"):
            yield unsupported(f"{where}.restartPolicy", each["restartPolicy"], ("Always", "Never", "OnFailure"))


def _validate_container(container: Json, field: str, volumes: set[str], seen: set[str]) -> Iterator[Mistake]:
    name, image = container["name"], container.get("image", "")
    if not name:
        yield required(f"{field}.name")
    else:
        yield from (invalid(f"{field}.name", name, why) for why in label_name(name))
    if not image:
        yield required(f"{field}.image")
    if container.get("terminationMessagePolicy") not in _MESSAGE_POLICIES:
        yield unsupported(
            f"{field}.terminationMessagePolicy", container.get("terminationMessagePolicy", ""), _MESSAGE_POLICIES
        )
    yield from _validate_ports(container.get("ports") or (), f"{field}.ports")
    for index, each in enumerate(container.get("env") or ()):
        yield from _validate_variable(each, f"{field}.env[{index}]")
    yield from _validate_mounts(container.get("volumeMounts") or (), f"{field}.volumeMounts", volumes)
    policy = container.get("imagePullPolicy", "")
    if policy not in _PULL_POLICIES:
        yield unsupported(f"{field}.imagePullPolicy", policy, _PULL_POLICIES)
    yield from validate_requirements(container["resources"], f"{field}.resources")
    if name in seen:
        yield duplicate(f"{field}.name", name)
    seen.add(name)
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if probe in container:
            yield from _validate_probe(container[probe], f"{field}.{probe}")


def _validate_ports(ports: Any, field: str) -> Iterator[Mistake]:
    names: set[str] = set()
    for index, port in enumerate(ports):
        where, name = f"{field}[{index}]", port.get("name", "")
        if name:
            complaints = list(port_name(name))
            yield from (invalid(f"{where}.name", name, why) for why in complaints)
            if not complaints and name in names:
                yield duplicate(f"{where}.name", name)
            names.add(name)
        for key in ("containerPort", "hostPort"):
            number = port.get(key, 0)
            if key == "containerPort" and not number:
                yield required(f"{where}.containerPort")
            elif not 0 <= number <= 65535:
                yield invalid(f"{where}.{key}", number, "must be between 1 and 65535, inclusive")
        if port.get("protocol") not in _PROTOCOLS:
            yield unsupported(f"{where}.protocol", port.get("protocol", ""), _PROTOCOLS)


def _validate_variable(variable: Json, field: str) -> Iterator[Mistake]:
    name = variable["name"]
    if not name:
        yield required(f"{field}.name")
    elif "=" in name or not all(" " <= char <= "~" for char in name):
        why = (
            "a valid environment variable name must consist only of printable ASCII characters other than '=' "
            "(e.g. 'my-name',  or 'MY.NAME',  or 'MyName.1', regex used for validation is '[ -<>-~]+')"
        )
        yield invalid(f"{field}.name", name, why)
    if variable.get("value") and "valueFrom" in variable:
        yield invalid(f"{field}.valueFrom", "", "may not be specified when `value` is not empty")


def _validate_mounts(mounts: Any, field: str, volumes: set[str]) -> Iterator[Mistake]:
    seen: set[str] = set()
    for index, mount in enumerate(mounts):
        where = f"{field}[{index}]"
        if not mount["name"]:
            yield required(f"{where}.name")
        elif mount["name"] not in volumes:
            yield Mistake(f"{where}.name", "FieldValueNotFound", f'Not found: "{mount["name"]}"')
        if not mount["mountPath"]:
            yield required(f"{where}.mountPath")
        elif mount["mountPath"] in seen:
            yield invalid(f"{where}.mountPath", mount["mountPath"], "must be unique")
        seen.add(mount["mountPath"])


def _validate_probe(probe: Json, field: str) -> Iterator[Mistake]:
    handlers = [each for each in _HANDLERS if each in probe]
    if not handlers:
        yield required(field, "must specify a handler type")
    for extra in handlers[1:]:
        yield Mistake(f"{field}.{extra}", "FieldValueForbidden", "Forbidden: may not specify more than 1 handler type")
    for key in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"):
        if probe.get(key, 0) < 0:
            yield invalid(f"{field}.{key}", probe[key], "must be greater than or equal to 0")
