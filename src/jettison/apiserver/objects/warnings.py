"""What is accepted in a pod, a template, a workload or a node and is probably a mistake: told in headers, which kubectl
prints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from jettison.apiserver.objects.preparing import template_number
from jettison.apiserver.objects.validation.addresses import address_warnings, network_warnings
from jettison.apiserver.objects.validation.metadata import label_name
from jettison.apiserver.objects.validation.pod.systems import containers_of
from jettison.engine.labels.syntax import label_value_complaints
from jettison.engine.numbers.quantity import parse
from jettison.engine.numbers.strconv import quote

Json = dict[str, Any]

OLD_NODE_LABELS: Final = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
}
"""Labels that nodes no longer have, and what became of them."""

_ANNOTATIONS: Final = {
    "scheduler.alpha.kubernetes.io/critical-pod": 'non-functional in v1.16+; use the "priorityClassName" field instead',
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}
_VOLUMES: Final = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
# Sources of files: what a warning calls them, and the field with their name.
_FILES: Final = {
    "configMap": ("ConfigMap", "name"),
    "secret": ("Secret", "secretName"),
    "downwardAPI": ("DownwardAPI", ""),
}
# More warnings than go into an answer.
_MOST_OVERLAPS: Final = 100
_SECCOMP_POD: Final = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP: Final = "container.seccomp.security.alpha.kubernetes.io/"
_SECCOMP_RULE: Final = 'non-functional in v1.27+; use the "seccompProfile" field instead'
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_TOO_MANY_INDEXES: Final = (
    "spec: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, "
    "Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
)
_NO_MATCH: Final = "a null labelSelector results in matching no pod"


def pod_warnings(pod: Json, path: str) -> Iterator[str]:
    """Of a pod, or of the template at this path."""
    spec, base = pod["spec"], f"{path}." if path else ""
    where = f"{base}spec"
    for key in spec.get("nodeSelector") or {}:
        if key in OLD_NODE_LABELS:
            yield f"{where}.nodeSelector[{key}]: {OLD_NODE_LABELS[key]}"
    yield from _node_warnings((spec.get("affinity") or {}).get("nodeAffinity") or {}, f"{where}.affinity.nodeAffinity")
    for index, each in enumerate(spec.get("topologySpreadConstraints") or ()):
        place, key = f"{where}.topologySpreadConstraints[{index}]", each["topologyKey"]
        if key in OLD_NODE_LABELS:
            yield f"{place}.topologyKey: {key} is {OLD_NODE_LABELS[key]}"
        if each.get("labelSelector") is None:
            yield f"{place}.labelSelector: {_NO_MATCH}"
    annotations = pod["metadata"].get("annotations") or {}
    for key, why in _ANNOTATIONS.items():
        if key in annotations:
            yield f"{base}metadata.annotations[{key}]: {why}"
    yield from _volume_warnings(spec.get("volumes") or (), f"{where}.volumes")
    yield from _repeated(spec, where)
    yield from _fractions(spec.get("overhead") or {}, f"{where}.overhead")
    if _SECCOMP_POD in annotations and "seccompProfile" not in (spec.get("securityContext") or ()):
        yield f"{base}metadata.annotations[{_SECCOMP_POD}]: {_SECCOMP_RULE}"
    yield from _container_warnings(spec, where, base, annotations)
    yield from _port_warnings(spec, where)
    if spec["terminationGracePeriodSeconds"] < 0:
        why = "must be >= 0; negative values are invalid and will be treated as 1"
        yield f"{where}.terminationGracePeriodSeconds: {why}"
    yield from _affinity_warnings(spec.get("affinity") or {}, f"{where}.affinity")
    for index, text in enumerate((spec.get("dnsConfig") or {}).get("nameservers") or ()):
        yield from address_warnings(text, f"{where}.dnsConfig.nameservers[{index}]")
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        yield from address_warnings(alias["ip"], f"{where}.hostAliases[{index}].ip")


def _volume_warnings(volumes: Iterable[Json], where: str) -> Iterator[str]:
    for index, volume in enumerate(volumes):
        for key, why in _VOLUMES.items():
            if key in volume:
                yield f"{where}[{index}].{'storageOS' if key == 'storageos' else key}: {why}"
            if key == "glusterfs":
                template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate") or {"spec": {"resources": {}}}
                for part in ("requests", "limits"):
                    place = f"{where}[{index}].ephemeral.volumeClaimTemplate.spec.resources.{part}"
                    yield from _fractions(template["spec"]["resources"].get(part) or {}, place, ("storage",))
    for volume in volumes:
        for key, (kind, name) in _FILES.items():
            if key in volume:
                said = f"{kind} {quote(volume[key].get(name, ''))}" if name else kind
                paths = [(each.get("path", ""), "") for each in volume[key].get("items") or ()]
                yield from (text for _, text in _overlaps(volume["name"], said, paths))
        if "projected" in volume:
            yield from _projected_warnings(volume["name"], volume["projected"].get("sources") or ())


def _projected_warnings(volume: str, sources: Iterable[Json]) -> Iterator[str]:
    """In the order of the sources."""
    paths: list[tuple[str, str]] = []
    empty: list[tuple[int, str]] = []
    for source in sources:
        if not source:
            empty.append((len(paths) - 1, f"volume {quote(volume)} (Projected) has no sources provided"))
        paths += _projected_paths(source)
    found = (*_overlaps(volume, "Projected", paths), *empty)
    yield from (text for _, text in sorted(found, key=lambda each: each[0]))


def _projected_paths(source: Json) -> list[tuple[str, str]]:
    """Each file, and what it is from. Of several sources in one, only the first counts."""
    for key, (kind, _) in _FILES.items():
        items = (source.get(key) or {}).get("items")
        if items is not None:
            said = kind if key == "downwardAPI" else f"{kind} {quote(source[key].get('name', ''))}"
            return [(each.get("path", ""), said) for each in items]
    return [(source[key]["path"], "ServiceAccountToken") for key in ("serviceAccountToken",) if key in source]


def _overlaps(volume: str, kind: str, paths: Iterable[tuple[str, str]]) -> Iterator[tuple[int, str]]:
    """Files that are, or lie in, another one, by the place of the later of the two.

    They are sorted, because to compare each with each takes quadratic time.
    """
    said: list[str] = []
    # With the lowest character for a slash, what lies in a folder comes right behind it.
    keys: list[tuple[str, int]] = []
    for number, (full, source) in enumerate(paths):
        path = full.rstrip("/")
        said.append(f"{quote(path)} ({source})" if source else quote(path))
        if path:
            keys.append((path.replace("/", "\0") + "\0", number))
    pairs: list[tuple[int, int]] = []
    around: list[tuple[str, int]] = []
    for key, number in sorted(keys):
        while around and not key.startswith(around[-1][0]):
            around.pop()
        pairs += ((max(number, other), min(number, other)) for _, other in around)
        around.append((key, number))
        if len(pairs) > _MOST_OVERLAPS:
            break
    for late, early in sorted(pairs):
        yield late, f"volume {quote(volume)} ({kind}): overlapping paths: {said[late]} with {said[early]}"


def _node_warnings(affinity: Json, where: str) -> Iterator[str]:
    terms = [
        (f"{where}.{_REQUIRED}.nodeSelectorTerms[{index}]", term)
        for index, term in enumerate((affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ())
    ]
    terms += [
        (f"{where}.{_PREFERRED}[{index}].preference", each["preference"])
        for index, each in enumerate(affinity.get(_PREFERRED) or ())
    ]
    for place, term in terms:
        for index, each in enumerate(term.get("matchExpressions") or ()):
            where = f"{place}.matchExpressions[{index}]"
            if each["key"] in OLD_NODE_LABELS:
                yield f"{where}.key: {each['key']} is {OLD_NODE_LABELS[each['key']]}"
            # Where a term is required, such a value is refused.
            for number, value in enumerate((each.get("values") or ()) if "preference" in place else ()):
                yield from (
                    f"{where}.values[{number}]: {value} is invalid, {why}" for why in label_value_complaints(value)
                )


def _affinity_warnings(affinity: Json, where: str) -> Iterator[str]:
    for key in ("podAffinity", "podAntiAffinity"):
        pods = affinity.get(key) or {}
        for index, term in enumerate(pods.get(_REQUIRED) or ()):
            if term.get("labelSelector") is None:
                yield f"{where}.{key}.{_REQUIRED}[{index}].labelSelector: {_NO_MATCH}"
        for index, each in enumerate(pods.get(_PREFERRED) or ()):
            if each["podAffinityTerm"].get("labelSelector") is None:
                yield f"{where}.{key}.{_PREFERRED}[{index}].podAffinityTerm.labelSelector: {_NO_MATCH}"


def _repeated(spec: Json, where: str) -> Iterator[str]:
    for key, name in (("hostAliases", "ip"), ("imagePullSecrets", "name")):
        seen: set[str] = set()
        for index, each in enumerate(spec.get(key) or ()):
            value = each.get(name, "")
            if value in seen:
                yield f"{where}.{key}[{index}].{name}: duplicate {name} {quote(value)}"
            seen.add(value)
    for index, each in enumerate(spec.get("imagePullSecrets") or ()):
        if not each.get("name"):
            yield f'{where}.imagePullSecrets[{index}].name: invalid empty name ""'


def _fractions(amounts: Json, where: str, names: tuple[str, ...] = ("memory", "ephemeral-storage")) -> Iterator[str]:
    """A thousandth of a byte is accepted, and is a mistake."""
    for name in names:
        amount = amounts.get(name)
        if amount is not None and parse(amount).milli % 1000:
            yield f'{where}[{name}]: fractional byte value "{amount}" is invalid, must be an integer'


def _container_warnings(spec: Json, where: str, base: str, annotations: Json) -> Iterator[str]:
    for place, container in containers_of(spec, where):
        context = container.get("securityContext") or {}
        if (key := _SECCOMP + container["name"]) in annotations and "seccompProfile" not in context:
            yield f"{base}metadata.annotations[{key}]: {_SECCOMP_RULE}"
        for name in ("memory", "ephemeral-storage"):
            for key in ("limits", "requests"):
                yield from _fractions(container["resources"].get(key) or {}, f"{place}.resources.{key}", (name,))
        seen: set[str] = set()
        for index, variable in enumerate(container.get("env") or ()):
            name, value = variable["name"], variable.get("value", "")
            own = f"$({name})"
            # `X=$(X)1` goes on from the former X, and is meant.
            if name in seen and ("valueFrom" in variable or value == own or own not in value):
                why = f"hides previous definition of {quote(name)}, which may be dropped when using apply"
                yield f"{place}.env[{index}]: {why}"
            seen.add(name)


def _port_warnings(spec: Json, where: str) -> Iterator[str]:
    known: dict[tuple[int, str], list[tuple[str, Json]]] = {}
    for place, container in containers_of(spec, where):
        for index, port in enumerate(container.get("ports") or ()):
            here = f"{place}.ports[{index}]"
            if port.get("hostIP") and not port.get("hostPort"):
                yield f"{here}: hostIP set without hostPort: {_port_text(port)}"
            others = known.setdefault((port["containerPort"], port.get("protocol", "")), [])
            for other, former in others:
                if word := _clash(port, former):
                    yield f"{here}: {word} port definition with {other}"
            others.append((here, port))
    names: dict[str, str] = {}
    for place, container in containers_of(spec, where):
        for index, port in enumerate(container.get("ports") or ()):
            name, here = port.get("name", ""), f"{place}.ports[{index}]"
            if name in names:
                other = names[name]
                use = f"services and probes that select ports by name will use {other}"
                yield f"{here}: duplicate port name {quote(name)} with {other}, {use}"
            elif name:
                names[name] = here


def _clash(port: Json, other: Json) -> str:
    one, two = port.get("hostPort", 0), other.get("hostPort", 0)
    is_same_address = port.get("hostIP", "") == other.get("hostIP", "")
    if is_same_address and one == two:
        return "duplicate"
    if not one or not two:
        return "overlapping"
    has_one_address = bool(port.get("hostIP")) is not bool(other.get("hostIP"))
    return "dangerously ambiguous" if one == two and has_one_address else ""


def _port_text(port: Json) -> str:
    """As Go prints the struct."""
    return (
        f"{{Name:{port.get('name', '')} HostPort:{port.get('hostPort', 0)} ContainerPort:{port['containerPort']} "
        f"Protocol:{port.get('protocol', '')} HostIP:{port['hostIP']}}}"
    )


def no_warning(value: Json) -> Iterable[str]:
    """Where nothing is."""
    del value
    return ()


def _warn_name(where: str) -> Callable[[Json], Iterable[str]]:
    def warn(value: Json) -> Iterable[str]:
        if complaints := list(label_name(value["metadata"]["name"])):
            why = "which can result in surprising behavior; a DNS label is recommended"
            yield f"metadata.name: this is used in {where}, {why}: [{' '.join(complaints)}]"

    return warn


_warn_pod_name: Final = _warn_name("the Pod's hostname")
warn_pods_names: Final = _warn_name("Pod names and hostnames")


def warn_pod(pod: Json) -> Iterable[str]:
    """A new one."""
    yield from _warn_pod_name(pod)
    yield from pod_warnings(pod, "")


def warn_template(warn_name: Callable[[Json], Iterable[str]] = no_warning) -> Callable[[Json], Iterable[str]]:
    """Of a new workload, after what its name is warned of."""

    def warn(value: Json) -> Iterable[str]:
        yield from warn_name(value)
        yield from pod_warnings(value["spec"]["template"], "spec.template")

    return warn


def warn_changed_template(new: Json, old: Json) -> Iterable[str]:
    """Where the spec has changed."""
    if new["metadata"].get("generation") != old["metadata"].get("generation"):
        yield from pod_warnings(new["spec"]["template"], "spec.template")


def warn_former_template(new: Json, old: Json) -> Iterable[str]:
    """Surprise: Kubernetes looks at the template that a changed ReplicationController no longer has."""
    return warn_changed_template({**new, "spec": old["spec"]}, old)


def warn_stateful_set(value: Json) -> Iterable[str]:
    """A new one."""
    yield from pod_warnings(value["spec"]["template"], "spec.template")
    yield from _warn_history(value)


def warn_changed_stateful_set(new: Json, old: Json) -> Iterable[str]:
    """A negative history is told with every change."""
    yield from warn_changed_template(new, old)
    yield from _warn_history(new)


def _warn_history(value: Json) -> Iterable[str]:
    if value["spec"].get("revisionHistoryLimit", 0) < 0:
        why = "a negative value retains all historical revisions; a value >= 0 is recommended"
        yield f"spec.revisionHistoryLimit: {why}"


def warn_job(value: Json) -> Iterable[str]:
    """A new one."""
    yield from warn_pods_names(value)
    yield from _warn_job_spec(value)


def warn_changed_job(new: Json, old: Json) -> Iterable[str]:
    """Where the spec has changed."""
    if new["metadata"].get("generation") != old["metadata"].get("generation"):
        yield from _warn_job_spec(new)


def _warn_job_spec(value: Json) -> Iterable[str]:
    spec = value["spec"]
    is_indexed = spec.get("completionMode") == "Indexed"
    if is_indexed and spec.get("completions", 0) > 100_000 and spec.get("parallelism", 0) > 10_000:
        yield _TOO_MANY_INDEXES
    yield from pod_warnings(spec["template"], "spec.template")


def warn_node(node: Json) -> Iterable[str]:
    """A new one, and every change."""
    spec = node["spec"]
    if "configSource" in spec:
        yield "spec.configSource: the feature is removed"
    if spec.get("externalID"):
        yield "spec.externalID: this field is deprecated, and is unused by Kubernetes"
    for index, each in enumerate(spec.get("podCIDRs") or ()):
        yield from network_warnings(each, f"spec.podCIDRs[{index}]")


def warn_renumbered_template(new: Json, old: Json) -> Iterable[str]:
    """Of a DaemonSet, whose template is warned of when it has changed."""
    if template_number(new) != template_number(old):
        yield from pod_warnings(new["spec"]["template"], "spec.template")
