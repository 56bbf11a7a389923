"""A node as it is now, ready to be decided on: from files, or from what a cluster answered."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from jettison.agent.journal.policy_records import policy_of_kubelet
from jettison.cli.output import Remarks
from jettison.cli.policy.node_input import layout_from, left_out, load_history, read_node, read_summary
from jettison.cli.policy.node_source import NodeSource
from jettison.cli.policy.policy_input import PolicyInput, Sources, read_policy
from jettison.engine.foresight.cases import Case
from jettison.engine.node.pressure import History
from jettison.engine.node.snapshot import NodeStats, PodUsage, Snapshot
from jettison.engine.pods.pod import PENDING, Pod
from jettison.errors import InputError, ManifestError, ObservationError
from jettison.manifests.node_files import NodeFiles, joined, newest_time
from jettison.manifests.pod_view import has_ended
from jettison.manifests.pods import pod_from
from jettison.manifests.summary import summary_from
from jettison.runtimes.kube.answers import Document
from jettison.runtimes.kube.node_proxy import NodeAnswers
from jettison.values import frozen

# What only an agent of ours answers besides its configuration.
_OF_OURS = "jettison"


@frozen
class SeenNode:
    """One instant of a node, its policy, and where both come from."""

    name: str
    case: Case
    found: PolicyInput
    origin: str
    # Pods that have ended, as their API shows them: namespace, name, uid, and what became of them.
    ended: Sequence[tuple[str, str, str, str]] = ()


def node_from(source: NodeSource, answers: NodeAnswers | None, remarks: Remarks) -> SeenNode:
    """What the cluster answered, or what is in the files."""
    seen = _in_files(source, remarks) if answers is None else _in_cluster(source, answers, remarks)
    case = seen.case
    if source.history_path is not None:
        history = load_history(source.history_path, seen.name)
        # A kubelet that answers knows its disks, whatever was remembered of it.
        knows_layout = history.knows_layout or case.history.knows_layout
        case = replace(case, history=replace(history, reclaiming=None, knows_layout=knows_layout))
    if source.after_path is not None:
        case = replace(case, after=replace(case.snapshot, node=read_summary(source.after_path)[0]))
    return replace(seen, case=case)


def _in_files(source: NodeSource, remarks: Remarks) -> SeenNode:
    if not source.is_in_files:
        raise InputError("no node is given: --node is one of a cluster, --summary and --pods describe one in files")
    if source.summary_path is None or source.pods_path is None:
        missing = "--summary" if source.summary_path is None else "--pods"
        raise InputError(f"{missing} is missing: --summary and --pods describe a node together")
    found = read_policy(source.config, source.profile, remarks)
    node = read_node(source.summary_path, source.pods_path)
    remarks.notes += node.notes
    snapshot = snapshot_of(node.node, node.pods, node.usages, source.image_fs)
    return SeenNode(node.node.name, Case(found.policy, History(), snapshot), found, "files")


def _in_cluster(source: NodeSource, answers: NodeAnswers, remarks: Remarks) -> SeenNode:
    has_config = bool(source.config.file or source.config.directory or source.config.flags)
    if has_config:
        found = read_policy(source.config, source.profile, remarks)
    else:
        found = PolicyInput(policy_of_kubelet(answers.configz, source.profile), Sources(None))
    node, pods, usages = parts_of(answers, f"node `{source.cluster_node}`", remarks)
    snapshot = snapshot_of(node, pods, usages, source.image_fs)
    case = Case(found.policy, History(knows_layout=True), snapshot)
    ended = [ended_pod(each) for each in answers.pods if has_ended(each)]
    return SeenNode(source.cluster_node, case, found, "cluster", ended)


def ended_pod(document: Document) -> tuple[str, str, str, str]:
    """For `SeenNode.ended`: phase or reason, and the message that its node left."""
    metadata, status = document.get("metadata") or {}, document.get("status") or {}
    became = str(status.get("reason") or status.get("phase") or "")
    message = str(status.get("message") or "").strip()
    namespace, name, uid = (str(metadata.get(key) or "") for key in ("namespace", "name", "uid"))
    return namespace, name, uid, f"{became}: {message}" if message else became


def parts_of(
    answers: NodeAnswers, source: str, remarks: Remarks
) -> tuple[NodeStats, Sequence[Pod], Mapping[str, PodUsage]]:
    """What a kubelet or an agent answered, joined."""
    try:
        node, usages = summary_from(answers.summary, source)
        found = joined(node, usages, [pod_from(each, source) for each in answers.pods], source)
    except ManifestError as error:
        raise ObservationError(str(error)) from error
    remarks.notes += left_out(node.name, found.elsewhere, found.ended)
    return node, _candidates(found, answers.configz), found.usages


def _candidates(found: NodeFiles, configz: Document) -> Sequence[Pod]:
    """A kubelet evicts a pod that it has no numbers for first. An agent of ours has numbers for every pod but those
    that wait for what it lacks, and does not evict these.
    """
    if _OF_OURS not in configz:
        return found.pods
    return [pod for pod in found.pods if pod.phase != PENDING or pod.uid in found.usages]


def snapshot_of(node: NodeStats, pods: Sequence[Pod], usages: Mapping[str, PodUsage], image_fs: str) -> Snapshot:
    """One instant: the newest time that was measured, or now."""
    return Snapshot(newest_time(node) or time.time_ns(), node, pods, usages, layout_from(image_fs, node))
