"""Readers of all untrusted input, valid documents for them, and wrong values to put into those.

`attempt` is the whole requirement: a `JettisonError` or an answer, within two seconds of CPU time.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from jettison.agent.journal import reading as journal_reading
from jettison.agent.journal.recorded_steps import step_from
from jettison.agent.journal.records import STEP, Encoder, Look, Step
from jettison.cli.inspect.journal import journal_lines
from jettison.engine.config.kubelet_config import assemble
from jettison.engine.config.policy import build_policy
from jettison.engine.node.decide import Evict, decide
from jettison.engine.node.local_storage import over_limit
from jettison.engine.node.pressure import History
from jettison.engine.node.signals import Condition, readings
from jettison.engine.node.snapshot import Layout, NodeStats, PodUsage, Snapshot
from jettison.engine.pods.admission import admit_under_pressure
from jettison.engine.pods.oom_scores import oom_score_adjustments
from jettison.engine.pods.pod import Pod, limits, requests
from jettison.errors import JettisonError, ManifestError
from jettison.manifests.files.config_files import parse_config_file
from jettison.manifests.files.document_files import parse_documents
from jettison.manifests.files.documents import PriorityClasses, prepare_pod
from jettison.manifests.history import SavedHistory, encode_history, parse_history
from jettison.manifests.placement import matches_node
from jettison.manifests.pods import parse_pods, pod_from
from jettison.manifests.summary import parse_summary
from jettison.runtimes.kube.kubeconfig import Overrides, load_access
from tests.builders import MI, document, node, policy, snapshot
from tests.manifests.test_pods import DOCUMENT as POD
from tests.manifests.test_summary import DOCUMENT as SUMMARY

DEADLINE = 2.0
STARVED = policy(
    {"memory.available": "100%%", "nodefs.available": "10Gi", "pid.available": "1"},
    {"imagefs.inodesFree": "50%"},
    grace="0s",
    guards_allocatable=True,
)


def attempt(work: Callable[[], object]) -> str | None:
    """What was complained about, or None. Any other exception fails the test by itself."""
    started = time.process_time()
    try:
        work()
    except JettisonError as error:
        said = str(error)
        assert said
        assert "Traceback" not in said
        return said
    finally:
        assert time.process_time() - started < DEADLINE
    return None


def use_pods(pods: list[Pod]) -> None:
    """Everything that is ever asked of a pod."""
    for pod in pods:
        _ = (pod.qos, pod.is_critical, pod.local_volumes, pod.storage_limit, str(pod))
        texts = [str(amount) for amounts in (requests(pod), limits(pod)) for amount in amounts.values()]
        assert all(texts)
        oom_score_adjustments(pod, 8 * 2**30)
        admit_under_pressure(pod, list(Condition))
    use(pods, NodeStats(), {pod.uid: PodUsage(MI, 1, MI) for pod in pods})


def use(pods: list[Pod], stats: NodeStats, usages: dict[str, PodUsage]) -> None:
    """A whole step for each layout, and every order worded."""
    readings(stats)
    starving = node(memory=0, capacity=8 * MI)
    for view in (stats, starving):
        for layout in (Layout(), Layout(has_image_fs=True), Layout(has_image_fs=True, is_split=True)):
            over_limit(pods, usages, layout)
            outcome = decide(STARVED, History(), Snapshot(0, view, pods, usages, layout))
            outcome = decide(STARVED, outcome.history, Snapshot(10**9, view, pods, usages, layout))
            if isinstance(outcome.decision, Evict):
                assert all(order.message.endswith(". ") for order in outcome.decision.evictions)


def read_pods(data: bytes) -> None:
    use_pods(parse_pods(data))


def read_summary(data: bytes) -> None:
    stats, usages = parse_summary(data)
    use([Pod("a", uid=uid) for uid in usages], stats, usages)


def read_config(data: bytes) -> None:
    build_policy(assemble(parse_config_file(data, "file").source))


def read_history(data: bytes) -> None:
    decide(STARVED, parse_history(data).history, snapshot(0, node()))


def read_manifests(data: bytes) -> None:
    """What a directory of manifests holds, as the agent reads it."""
    documents = parse_documents(data.decode("utf-8", "replace"), "file")
    classes = PriorityClasses(each for each in documents if each["kind"] == "PriorityClass")
    found = [prepare_pod(each, "file", classes, is_static=True) for each in documents if each["kind"] == "Pod"]
    use_pods([pod_from(each, "file") for each in found])
    for each in found:
        matches_node(each["spec"], {"zone": "a"})


def read_kubeconfig(data: bytes) -> None:
    """Up to where a connection would be made: files are named in it, and certificates are inside."""
    from jettison.runtimes.kube.credentials import authentication, trust

    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        access = load_access(Overrides(kubeconfig=file.name), {})
    authentication(access)
    if access.authority_pem or access.credentials.certificate_pem:
        trust(access)


def read_record(data: bytes) -> None:
    """A record of the journal, as `journal` and `why` show it."""
    record = journal_reading._record(data)
    if record is None:
        raise ManifestError("a spoiled record is passed over")
    assert all(line.isprintable() for line in journal_lines(record))
    if record.kind == STEP:
        step_from(record.data)


READERS: dict[str, Callable[[bytes], None]] = {
    "pods": read_pods,
    "summary": read_summary,
    "config": read_config,
    "history": read_history,
    "manifests": read_manifests,
    "kubeconfig": read_kubeconfig,
    "step": read_record,
    "fact": read_record,
}


def _history_document() -> Any:
    views = [snapshot(at_s, node(memory=0), [Pod("a")], {}) for at_s in (0, 10)]
    history = History()
    for view in views:
        history = decide(STARVED, history, view).history
    return json.loads(encode_history(SavedHistory(history, "n1")))


CONFIG = document(
    evictionHard={"memory.available": "100Mi", "nodefs.available": "10%"},
    evictionSoft={"memory.available": "1Gi"},
    evictionSoftGracePeriod={"memory.available": "30s"},
    evictionMinimumReclaim={"memory.available": "0"},
    systemReserved={"memory": "1Gi"},
    enforceNodeAllocatable=["pods"],
    evictionPressureTransitionPeriod="5m",
    maxPods=5,
    cgroupsPerQOS=True,
    reservedSystemCPUs="0",
)
CLASS = {"kind": "PriorityClass", "metadata": {"name": "gold"}, "value": 100, "globalDefault": True}
EXPRESSION = {"key": "zone", "operator": "In", "values": ["a"]}
TERMS = {"nodeSelectorTerms": [{"matchExpressions": [EXPRESSION]}]}
# Small, because YAML is slow to read and the fields of a pod are tried with JSON.
SMALL_POD = {
    "kind": "Pod",
    "metadata": {"name": "web", "annotations": {"a": "b"}},
    "spec": {
        "priorityClassName": "gold",
        "containers": [{"name": "c"}],
        "nodeSelector": {"zone": "a"},
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": TERMS}},
    },
}
KUBECONFIG = {
    "current-context": "here",
    "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1", "certificate-authority": "/dev/null"}}],
    "users": [
        {"name": "u", "user": {"token": "t", "client-key-data": "eA==", "exec": {"command": "true", "args": ["a"]}}}
    ],
    "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "n"}}],
}
FACT = {
    "version": 1,
    "kind": "fact",
    "time": 1_900_000_000_000_000_000,
    "node": "n1",
    "pods": [["default", "web", "u1"]],
    "event": "pod_evicted",
    "values": {"pod": "default/web", "message": "m", "took_ns": 5, "available": 7, "threshold": "memory.available<1Gi"},
}


def _step_document() -> Any:
    view = snapshot(0, node(memory=0), [Pod("a", uid="a")], {"a": PodUsage(MI, 1, MI)})
    step = Step(10**18, "n1", STARVED, History(), [Look(view, decide(STARVED, History(), view))])
    return json.loads(msgspec.json.encode(Encoder().step(step)))


VALID: dict[str, Any] = {
    "pods": {"kind": "List", "items": [POD, POD]},
    "summary": SUMMARY,
    "config": CONFIG,
    "history": _history_document(),
    "manifests": {"kind": "List", "items": [CLASS, SMALL_POD]},
    "kubeconfig": KUBECONFIG,
    "step": _step_document(),
    "fact": FACT,
}


def encoded(value: Any) -> bytes:
    """JSON as a careless writer makes it: NaN and Infinity as bare words, half surrogates as escapes."""
    return json.dumps(value).encode()


WRONG: list[Any] = [
    None,
    True,
    0,
    -1,
    7,
    2**31,
    2**63,
    2**64,
    -(2**63) - 1,
    10**25,
    1.5,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "x",
    "-1",
    "1e4096",
    "9" * 10_000,
    "0" * 10_000,
    "\ud800",
    "\x00\x1b[31m\u202e",
    [],
    [[]],
    [None],
    [{"name": "a"}, {"name": "a"}],
    {},
    {"": None},
    {"name": {"name": {}}},
    {"memory.available": "1Gi", "memory": "1Gi"},
]


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every place in a document, its root first."""
    yield path
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield from places(inner, (*path, key))


def with_value(value: Any, path: tuple[str | int, ...], wrong: Any) -> Any:
    """A copy that has something else in one place."""
    if not path:
        return wrong
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = with_value(value[path[0]], path[1:], wrong)
    return copy
