"""A scenario: nodes, pods and how they behave, controllers, budgets, drains and faults; from YAML to values.

`docs/simulate.md` describes the keys. A scenario says what there is and what it does, and nothing of what is decided.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any, TypeVar

from jettison.engine.config.kubelet_config import Source, assemble
from jettison.engine.config.kubelet_fields import API_VERSION, KIND
from jettison.engine.config.policy import PROFILES, Policy, build_policy
from jettison.engine.config.suggestions import did_you_mean, setting_advice
from jettison.engine.lifecycle.rules import RestartPolicy
from jettison.engine.scheduling.placement import Taint
from jettison.errors import Complaint, InputError, PolicyError
from jettison.manifests.files.config_files import unknown_fields
from jettison.manifests.files.decoding import shortened
from jettison.runtimes.simulated.machine import DISK, INODES, MEMORY, PIDS, MachineSize
from jettison.simulator.curve_kinds import CurveMaker, curve_of
from jettison.simulator.pod_templates import PodTemplate, object_name, pod_template
from jettison.simulator.sections import ScenarioFile, Section
from jettison.values import frozen

VERSION = 1

T = TypeVar("T")

_SYSTEM_KEYS = {"memory": MEMORY, "disk": DISK, "inodes": INODES, "processes": PIDS}
MOST_NODES, MOST_PODS = 5_000, 200_000
# Behind the name of a workload: of its pods, and of the sets of a Deployment.
_NUMBERS = re.compile(r"(-\d+){1,2}$")


@frozen
class NodeSpec:
    """One node, or several alike."""

    size: MachineSize
    policy: Policy
    has_alarms: bool = True
    system: Mapping[int, CurveMaker] = field(default_factory=dict)
    unused_images: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()


@frozen
class Arrival:
    """Bare pods: so many, the first at a moment, the others at an interval that varies by a share of it."""

    name: str
    template: PodTemplate
    count: int = 1
    at_ns: int = 0
    every_ns: int = 0
    jitter: float = 0.0
    # Bound there without a scheduler; empty: it is placed.
    node: str = ""


@frozen
class WorkloadSpec:
    """A controller that keeps a number of pods, or one on each node."""

    name: str
    kind: str
    replicas: int
    template: PodTemplate
    at_ns: int = 0
    # Of a Deployment: how it goes from one template to the next, and when to which.
    max_surge: int | str = "25%"
    max_unavailable: int | str = "25%"
    recreates: bool = False
    updates: Sequence[tuple[int, PodTemplate]] = ()
    # Of a StatefulSet: no pod waits for another.
    is_parallel: bool = False
    # Of a Job; without `completions` the first success ends it.
    parallelism: int = 1
    completions: int | None = 1
    backoff_limit: int = 6
    deadline_ns: int | None = None


@frozen
class BudgetSpec:
    """A PodDisruptionBudget."""

    name: str
    namespace: str
    selector: Mapping[str, str]
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


@frozen
class DrainSpec:
    """Cordon, and evict through the budgets; refused evictions are repeated."""

    node: str
    at_ns: int
    retry_ns: int = 5 * 10**9
    timeout_ns: int | None = None
    is_forced: bool = True


FAULTS = ("stats-missing", "pod-stats-missing", "slow-kills", "runtime-down")


@frozen
class FaultSpec:
    """Something that goes wrong for a while; `delay_ns` is by how much a kill is late."""

    kind: str
    node: str
    at_ns: int
    for_ns: int
    delay_ns: int = 0


@frozen
class Scenario:
    """All of it."""

    name: str
    seed: int
    duration_ns: int
    nodes: Sequence[NodeSpec]
    arrivals: Sequence[Arrival] = ()
    workloads: Sequence[WorkloadSpec] = ()
    budgets: Sequence[BudgetSpec] = ()
    drains: Sequence[DrainSpec] = ()
    faults: Sequence[FaultSpec] = ()
    profile: str = "kubelet"

    def with_policies(self, change: Callable[[Policy], Policy]) -> Scenario:
        """The same on nodes that are configured otherwise."""
        return replace(self, nodes=[replace(node, policy=change(node.policy)) for node in self.nodes])


def read_scenario(path: Path) -> Scenario:
    """Raises ManifestError with file, line, key and what is allowed."""
    return scenario_of(ScenarioFile.read(path), path.stem)


def parse_scenario(text: str, name: str = "scenario") -> Scenario:
    """Of a text; files that it names lie in the working directory."""
    return scenario_of(ScenarioFile(text, name, Path()), name)


def scenario_of(file: ScenarioFile, name: str) -> Scenario:
    """Of a decoded file."""
    top = Section(file)
    version = top.integer("version", VERSION, 0, 10**6)
    if version != VERSION:
        raise top.wrong("version", f"is `{version}`, this program reads version {VERSION}")
    profile = top.choice("profile", PROFILES, "kubelet")
    nodes = [node for section in top.sections("nodes") for node in _nodes(section, profile)]
    if not 0 < len(nodes) <= MOST_NODES:
        raise top.wrong("nodes", f"there are {len(nodes)}, expected 1 to {MOST_NODES}")
    names = [node.size.name for node in nodes]
    twice = next((each for each in names if names.count(each) > 1), None)
    if twice is not None:
        raise top.wrong("nodes", f"two are called `{twice}`")
    scenario = Scenario(
        top.text("name", name),
        top.integer("seed", 1, 0, 2**63 - 1),
        top.duration_ns("duration", 600 * 10**9),
        nodes,
        [_arrival(each, names) for each in top.sections("pods")],
        [_workload(each) for each in top.sections("workloads")],
        [_budget(each) for each in top.sections("budgets")],
        [_drain(each, names) for each in top.sections("drains")],
        [_fault(each, names) for each in top.sections("faults")],
        profile,
    )
    top.text("description")
    top.done()
    _check_names(top, scenario)
    pods = sum(each.count for each in scenario.arrivals) + sum(each.replicas for each in scenario.workloads)
    if pods > MOST_PODS:
        raise top.wrong("pods", f"there are {pods}, expected {MOST_PODS} at most")
    return scenario


def _check_names(top: Section, scenario: Scenario) -> None:
    """Two pods, workloads or budgets of one name would be one. The pods of a workload have its name and a number."""
    workloads = [((each.template.pod.namespace, each.name), each.kind) for each in scenario.workloads]
    pods = [
        (each.template.pod.namespace, each.name if each.count == 1 else f"{each.name}-{number + 1}")
        for each in scenario.arrivals
        for number in range(each.count)
    ]
    budgets = [(each.namespace, each.name) for each in scenario.budgets]
    for key, names in (("pods", pods), ("workloads", [name for name, _ in workloads]), ("budgets", budgets)):
        twice = next((each for each, count in Counter(names).items() if count > 1), None)
        if twice is not None:
            raise top.wrong(key, f"two are called `{'/'.join(twice)}`")
    kinds = dict(workloads)
    for key, names in (("pods", pods), ("workloads", [*kinds])):
        for namespace, name in names:
            owner = (namespace, _NUMBERS.sub("", name))
            if owner[1] != name and owner in kinds and (key == "pods" or kinds[owner] == "Deployment"):
                raise top.wrong(key, f"`{name}` is a name that `{owner[1]}` of the workloads gives")


def _nodes(section: Section, default_profile: str) -> list[NodeSpec]:
    name, count = object_name(section, "name", "node"), section.integer("count", 1, 1, MOST_NODES)
    images = section.optional_amount("images")
    unused = section.amount("unusedImages")
    size = MachineSize(
        name,
        section.integer("cpu", 4, 1, 4096),
        _something(section, "memory", 8 * 2**30),
        _something(section, "disk", 100 * 2**30),
        section.amount("inodes", 6_000_000),
        images,
        section.amount("inodes", 6_000_000),
        section.amount("processes", 32_768),
    )
    system = section.section("system")
    curves: dict[int, CurveMaker] = {}
    if system is not None:
        curves = {kind: curve_of(system, key) for key, kind in _SYSTEM_KEYS.items() if key in system}
        for key in _SYSTEM_KEYS:
            system.anything(key)
        system.done()
    profile = section.choice("profile", PROFILES, default_profile)
    spec = NodeSpec(
        size,
        _policy(section, profile),
        section.flag("alarms", True),
        curves,
        unused,
        section.texts("labels"),
        tuple(_taint(section, each) for each in section.values("taints")),
    )
    section.done()
    if unused > (size.disk if images is None else images):
        raise section.wrong("unusedImages", "expected at most what their filesystem has")
    if count == 1:
        return [spec]
    width = len(str(count))
    return [replace(spec, size=replace(size, name=f"{name}-{number:0{width}}")) for number in range(1, count + 1)]


def _something(section: Section, key: str, default: int) -> int:
    found = section.amount(key, default)
    if not found:
        raise section.wrong(key, "is 0, expected more")
    return found


def _policy(section: Section, profile: str) -> Policy:
    document = section.anything("config") or {}
    if not isinstance(document, Mapping):
        raise section.wrong("config", "expected the fields of a KubeletConfiguration")
    for path, key, known in unknown_fields(document):
        raise section.wrong("config", f"unknown field `{shortened(path)}`{did_you_mean(key, known)}")
    try:
        whole: dict[str, Any] = {"apiVersion": API_VERSION, "kind": KIND, **document}
        return build_policy(assemble(Source("config", whole)), PROFILES[profile])
    except PolicyError as error:
        raise section.wrong("config", "; ".join(_advised(each, document) for each in error.complaints)) from error
    except InputError as error:
        raise section.wrong("config", str(error)) from error


def _advised(complaint: Complaint, document: Mapping[str, Any]) -> str:
    key, (name, _, entry) = complaint.key, complaint.key.partition(".")
    value = document.get(name)
    if entry and isinstance(value, Mapping):
        value = value.get(entry)
    text = setting_advice(complaint.text.removeprefix(f"{key}: "), key, value)
    return f"{key} {text}" if text.startswith("is ") else f"{key}: {text}".removeprefix(": ")


def _taint(section: Section, text: object) -> Taint:
    key, _, rest = str(text).partition("=")
    value, _, effect = rest.rpartition(":")
    if not key or effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
        raise section.wrong("taints", f"`{text}`: expected key=value:NoSchedule")
    return Taint(key, value, effect)


def _arrival(section: Section, nodes: Sequence[str]) -> Arrival:
    node = section.text("node")
    if node and node not in nodes:
        raise section.wrong("node", f"there is no node `{node}`, there are {', '.join(nodes[:10])}")
    arrival = Arrival(
        object_name(section, "name"),
        pod_template(section),
        section.integer("count", 1, 1, MOST_PODS),
        section.duration_ns("at"),
        section.duration_ns("every"),
        section.fraction("jitter"),
        node,
    )
    section.done()
    return arrival


_WORKLOADS = ("ReplicaSet", "Deployment", "StatefulSet", "DaemonSet", "Job")
_STRATEGIES = ("RollingUpdate", "Recreate")
_MANAGEMENT = ("OrderedReady", "Parallel")


def _workload(section: Section) -> WorkloadSpec:
    """Each kind has its own keys; those of another kind are unknown."""
    kind = section.choice("kind", _WORKLOADS, "ReplicaSet")
    has_replicas = kind in ("ReplicaSet", "Deployment", "StatefulSet")
    replicas = section.integer("replicas", 1, 0, MOST_PODS) if has_replicas else 0
    spec = WorkloadSpec(
        object_name(section, "name"),
        kind,
        replicas,
        _template_of(section, is_job=kind == "Job"),
        section.duration_ns("at"),
    )
    match kind:
        case "Deployment":
            spec = replace(
                spec,
                max_surge=_share(section, "maxSurge", "25%"),
                max_unavailable=_share(section, "maxUnavailable", "25%", most_percent=100),
                recreates=section.choice("strategy", _STRATEGIES, _STRATEGIES[0]) == "Recreate",
                updates=[_update(each, spec.at_ns) for each in section.sections("updates")],
            )
        case "StatefulSet":
            spec = replace(spec, is_parallel=section.choice("podManagement", _MANAGEMENT, _MANAGEMENT[0]) == "Parallel")
        case "Job":
            spec = replace(
                spec,
                parallelism=section.integer("parallelism", 1, 0, MOST_PODS),
                completions=section.integer("completions", 1, 0, MOST_PODS),
                backoff_limit=section.integer("backoffLimit", 6),
                deadline_ns=section.optional_duration_ns("deadline"),
            )
    section.done()
    return spec


def _template_of(section: Section, *, is_job: bool = False) -> PodTemplate:
    template = section.section("template")
    if template is None:
        raise section.wrong("template", "is missing: it says what the pods are like")
    found = pod_template(template, RestartPolicy.NEVER if is_job else RestartPolicy.ALWAYS)
    if is_job and found.program.restart_policy is RestartPolicy.ALWAYS:
        raise template.wrong("restart", "is `Always`, expected Never or OnFailure: a Job's pods end")
    template.done()
    return found


def _update(section: Section, after_ns: int) -> tuple[int, PodTemplate]:
    at_ns = section.duration_ns("at")
    if at_ns <= after_ns:
        raise section.wrong("at", "expected a moment after the Deployment's own `at`")
    found = at_ns, _template_of(section)
    section.done()
    return found


def _share(section: Section, key: str, default: T, most_percent: int | None = None) -> int | str | T:
    """A number, or a percentage; of what is counted there is no more than all, where Kubernetes says so."""
    value = section.anything(key)
    if value is None:
        return default
    is_share = isinstance(value, str) and value.endswith("%") and value[:-1].isdecimal()
    is_number = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if not is_share and not is_number:
        raise section.wrong(key, f"is `{shortened(str(value))}`, expected a number or a percentage such as `50%`")
    if is_share and most_percent is not None and int(value[:-1]) > most_percent:
        raise section.wrong(key, f"is `{value}`, expected at most {most_percent}%")
    found: int | str = value
    return found


def _budget(section: Section) -> BudgetSpec:
    values = {key: _share(section, key, None, most_percent=100) for key in ("minAvailable", "maxUnavailable")}
    if len([key for key, value in values.items() if value is not None]) != 1:
        raise section.wrong("minAvailable", "expected either minAvailable or maxUnavailable")
    budget = BudgetSpec(
        object_name(section, "name"),
        object_name(section, "namespace", "default"),
        section.texts("selector"),
        values["minAvailable"],
        values["maxUnavailable"],
    )
    section.done()
    return budget


def _node_of(section: Section, nodes: Sequence[str]) -> str:
    node = section.name("node")
    if node not in nodes:
        raise section.wrong("node", f"there is no node `{node}`, there are {', '.join(nodes[:10])}")
    return node


def _drain(section: Section, nodes: Sequence[str]) -> DrainSpec:
    drain = DrainSpec(
        _node_of(section, nodes),
        section.duration_ns("at"),
        section.duration_ns("retry", 5 * 10**9) or 5 * 10**9,
        section.optional_duration_ns("timeout"),
        section.flag("force", True),
    )
    section.done()
    return drain


def _fault(section: Section, nodes: Sequence[str]) -> FaultSpec:
    fault = FaultSpec(
        section.choice("kind", FAULTS, ""),
        _node_of(section, nodes),
        section.duration_ns("at"),
        section.duration_ns("for", 60 * 10**9),
        section.duration_ns("delay", 10 * 10**9),
    )
    section.done()
    return fault
