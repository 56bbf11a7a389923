"""What the pods of a scenario are like: a pod's keys to a template, of which pods are made.

A template has the pod as the engine knows it, what its program does, and what it uses over time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from jettison.engine.lifecycle.rules import RestartPolicy
from jettison.engine.pods.pod import Pod
from jettison.errors import ManifestError
from jettison.manifests.files.decoding import shortened
from jettison.manifests.pods import pod_from
from jettison.runtimes.simulated.pods import PodProgram
from jettison.simulator.curve_kinds import CurveMaker, curve_of
from jettison.simulator.sections import Section
from jettison.values import frozen

_SECOND_NS = 10**9
_LONGEST_NAME = 253
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", re.ASCII)

_USAGE_KEYS = {"disk": "rootfs", **{part: part for part in ("memory", "logs", "volume", "inodes", "processes")}}
_OPERATORS = ("Equal", "Exists")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


@frozen
class PodTemplate:
    """What a pod is like; a name, a uid and its chance are added when one is made of it."""

    pod: Pod
    labels: Mapping[str, str]
    usage: Mapping[str, CurveMaker]
    program: PodProgram
    # Seconds after its start at which it is ready.
    ready_ns: int = 0


def object_name(section: Section, key: str, default: str = "") -> str:
    """As Kubernetes has names of objects."""
    found = section.text(key, default)
    if not found:
        raise section.wrong(key, "is missing")
    if len(found) > _LONGEST_NAME or not _NAME.fullmatch(found):
        allowed = f"expected up to {_LONGEST_NAME} lower case letters, digits, `-` and `.`"
        raise section.wrong(key, f"is `{shortened(found)}`, {allowed}")
    return found


def pod_template(section: Section, restart: RestartPolicy = RestartPolicy.ALWAYS) -> PodTemplate:
    """Of a map with a pod's keys, which may have others; the caller refuses those."""
    grace_ns = section.duration_ns("grace", 30 * _SECOND_NS)
    if grace_ns % _SECOND_NS:
        raise section.wrong("grace", "expected whole seconds")
    volumes = _volumes(section)
    resources = {key: section.texts(key) for key in ("requests", "limits")}
    document: dict[str, Any] = {
        "metadata": {"name": "x", "namespace": object_name(section, "namespace", "default"), "uid": "x"},
        "spec": {
            "containers": [{"name": "main", "resources": resources}],
            "volumes": volumes,
            "priority": section.integer("priority", 0, -(2**31), 2**31 - 1),
            "priorityClassName": section.text("priorityClass") or None,
            "terminationGracePeriodSeconds": grace_ns // _SECOND_NS,
            "tolerations": [_toleration(each) for each in section.sections("tolerations")],
        },
    }
    if section.flag("static", False):
        document["metadata"]["annotations"] = {"kubernetes.io/config.source": "file"}
    try:
        pod = pod_from(document, "pod")
    except ManifestError as error:
        raise section.wrong("requests", str(error)) from error
    (container,) = pod.containers
    for key, amounts in (("requests", container.requests), ("limits", container.limits)):
        for name, amount in amounts.items():
            if amount.nanos < 0:
                raise section.wrong(key, f"{name} is `{resources[key][name]}`, expected an amount of at least 0")
    for name, limit in container.limits.items():
        if name in container.requests and container.requests[name] > limit:
            raise section.wrong("requests", f"{name} is more than its limit")
    usage = section.section("usage")
    curves: dict[str, CurveMaker] = {}
    if usage is not None:
        curves = {part: curve_of(usage, key) for key, part in _USAGE_KEYS.items() if key in usage}
        for key in _USAGE_KEYS:
            usage.anything(key)
        usage.done()
        if "volume" in curves and not volumes:
            raise usage.wrong("volume", "the pod has no `volume`")
    program = _program(section, pod, restart)
    return PodTemplate(pod, section.texts("labels"), curves, program, section.duration_ns("ready"))


def _volumes(section: Section) -> list[dict[str, Any]]:
    volume = section.section("volume")
    if volume is None:
        return []
    limit = volume.text("sizeLimit") if volume.optional_amount("sizeLimit") is not None else ""
    found = [{"name": object_name(volume, "name", "data"), "emptyDir": {"sizeLimit": limit} if limit else {}}]
    volume.done()
    return found


def _toleration(section: Section) -> dict[str, Any]:
    found: dict[str, Any] = {
        "key": section.text("key"),
        "operator": section.choice("operator", _OPERATORS, "Equal"),
        "value": section.text("value"),
        "effect": section.choice("effect", _EFFECTS, "") if "effect" in section else section.text("effect"),
    }
    if "tolerationSeconds" in section:
        found["tolerationSeconds"] = section.integer("tolerationSeconds", 0, -(2**62), 2**62)
    section.anything("tolerationSeconds")
    section.done()
    return found


def _program(section: Section, pod: Pod, restart: RestartPolicy) -> PodProgram:
    memory = pod.containers[0].limits.get("memory")
    obeys = section.text("obeys", "0s")
    return PodProgram(
        starts_in_ns=section.duration_ns("starts", 200 * 10**6),
        obeys_in_ns=None if obeys == "never" else section.duration_ns("obeys"),
        lasts_ns=section.optional_duration_ns("lasts"),
        exit_code=section.integer("exitCode", 0, 0, 255),
        restart_policy=RestartPolicy(section.choice("restart", [each.value for each in RestartPolicy], restart.value)),
        memory_limit=None if memory is None or not memory else memory.value,
        clean_up_ns=section.duration_ns("cleanup", 50 * 10**6),
    )
