"""What a node measured, which pods it runs and how it is configured: from the files that kubectl prints to values.

`read_snapshot` is what a program wants: of the pods in a file it takes those that run on the node of the summary and
have not ended, and it finds the usage of a static pod under the uid of its mirror.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from jettison.engine.config.kubelet_config import assemble
from jettison.engine.config.policy import PROFILES, Policy, build_policy
from jettison.engine.node.snapshot import Layout, NodeStats, PodUsage, Snapshot
from jettison.engine.pods.pod import ENDED_PHASES, Pod
from jettison.errors import InputError, ManifestError
from jettison.manifests.files.config_files import LARGEST_FILE, drop_in_paths, parse_config_file
from jettison.manifests.files.plain_files import read_given
from jettison.manifests.pods import parse_pods
from jettison.manifests.summary import layout_of, parse_summary
from jettison.values import frozen

LARGEST_LIST = 512 * 2**20
"""A list of 50,000 pods has 350 MB."""

SUMMARY_HINT = "expected what `kubectl get --raw /api/v1/nodes/NAME/proxy/stats/summary` prints"
PODS_HINT = "expected what `kubectl get pods --all-namespaces -o json` prints"


@frozen
class NodeFiles:
    """A summary and a list of pods, joined. Pods of other nodes and pods that have ended are only counted."""

    node: NodeStats
    usages: Mapping[str, PodUsage]
    pods: Sequence[Pod]
    elsewhere: int = 0
    ended: int = 0
    # Pods that were measured and are not in the list: the files may be of different times.
    unlisted: int = 0


def read_snapshot(
    summary: Path | str, pods: Path | str, *, now_ns: int | None = None, layout: Layout | None = None
) -> Snapshot:
    """Both files as one instant: `now_ns`, else the newest time in the summary, else now.

    How disks are laid out is guessed from the sizes in the summary where it is not given.
    """
    node, usages = read_summary(summary)
    found = joined(node, usages, read_pods(pods), str(pods))
    now_ns = now_ns or newest_time(node) or time.time_ns()
    return Snapshot(now_ns, node, found.pods, found.usages, layout or layout_of(node))


def read_summary(path: Path | str) -> tuple[NodeStats, dict[str, PodUsage]]:
    """What `/stats/summary` of a kubelet answered."""
    return summary_in(read_given(Path(path), LARGEST_LIST), str(path))


def read_pods(path: Path | str) -> list[Pod]:
    """Every pod of a list, those that have ended and those of other nodes included."""
    return pods_in(read_given(Path(path), LARGEST_LIST), str(path))


def read_policy(file: Path | str, drop_ins: Path | str | None = None, *, profile: str = "kubelet") -> Policy:
    """Of a KubeletConfiguration, and of every `*.conf` in a directory beside it; a PolicyError tells all mistakes."""
    if profile not in PROFILES:
        raise InputError(f"invalid profile `{profile}`: {' or '.join(PROFILES)}")
    paths = [] if drop_ins is None else drop_in_paths(Path(drop_ins))
    whole, *parts = (parse_config_file(read_given(Path(each), LARGEST_FILE), str(each)) for each in (file, *paths))
    return build_policy(assemble(whole.source, [each.source for each in parts]), PROFILES[profile])


def summary_in(data: bytes, source: str) -> tuple[NodeStats, dict[str, PodUsage]]:
    """A summary; one without any statistics is some other document."""
    try:
        node, usages = parse_summary(data, source)
    except ManifestError as error:
        raise ManifestError(f"{error}; {SUMMARY_HINT}") from error
    if node == NodeStats(node.name) and not usages:
        raise ManifestError(f"{source}: holds no statistics of a node; {SUMMARY_HINT}")
    return node, usages


def pods_in(data: bytes, source: str) -> list[Pod]:
    """A list of pods, or one pod."""
    try:
        pods = parse_pods(data, source)
    except ManifestError as error:
        raise ManifestError(f"{error}; {PODS_HINT}") from error
    if any(not pod.name for pod in pods):
        raise ManifestError(f"{source}: holds a pod without a name; {PODS_HINT}")
    return pods


def joined(node: NodeStats, usages: Mapping[str, PodUsage], listed: Sequence[Pod], source: str) -> NodeFiles:
    """What of the list the node may evict; `source` is where the list is from."""
    here = [pod for pod in listed if not node.name or pod.node_name in ("", node.name)]
    active = [pod for pod in here if pod.phase not in ENDED_PHASES]
    _refuse_twins(active, source)
    unlisted = usages.keys() - {uid for pod in here for uid in (pod.uid, pod.static_uid)}
    return NodeFiles(
        node, _with_static(usages, active), active, len(listed) - len(here), len(here) - len(active), len(unlisted)
    )


def newest_time(node: NodeStats) -> int | None:
    """When the newest of its numbers was measured."""
    parts = (node.memory, node.pods_memory, node.fs, node.image_fs, node.container_fs, node.processes)
    return max((part.time_ns for part in parts if part is not None and part.time_ns is not None), default=None)


def _refuse_twins(pods: Iterable[Pod], source: str) -> None:
    """Statistics are by uid: of two pods with one uid it cannot be said which uses what."""
    seen: dict[str, Pod] = {}
    for pod in pods:
        twin = seen.setdefault(pod.uid, pod)
        if twin is not pod:
            raise ManifestError(f"{source}: pods `{twin}` and `{pod}` have the same uid `{pod.uid}`")


def _with_static(usages: Mapping[str, PodUsage], pods: Iterable[Pod]) -> Mapping[str, PodUsage]:
    """The API shows a static pod's mirror, the kubelet measures the pod itself; both are one pod."""
    return {
        **usages,
        **{pod.uid: usages[pod.static_uid] for pod in pods if pod.uid not in usages and pod.static_uid in usages},
    }
