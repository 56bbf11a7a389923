"""The revisions of a Deployment: a ReplicaSet per template, numbered by annotations as `kubectl rollout` reads them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from jettison.engine.numbers.strconv import parse_int64
from jettison.engine.workloads.rollout import Generation, Rollout, recreating, rolling
from jettison.engine.workloads.template_hash import POD_TEMPLATE_HASH, is_same_template
from jettison.runtimes.kube.client import Document

REVISION: Final = "deployment.kubernetes.io/revision"
HISTORY: Final = "deployment.kubernetes.io/revision-history"
DESIRED_REPLICAS: Final = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS: Final = "deployment.kubernetes.io/max-replicas"

_NOT_COPIED: Final = (
    "kubectl.kubernetes.io/last-applied-configuration",
    "deprecated.deployment.rollback.to",
    REVISION,
    HISTORY,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
)
_LONGEST_HISTORY: Final = 2000
_LONGEST_NAME: Final = 253
# What Kubernetes takes for "no limit".
UNLIMITED: Final = 2**31 - 1


def replicas_of(workload: Document) -> int:
    """How many pods it asks for; without a number, one."""
    replicas = workload["spec"].get("replicas")
    return 1 if replicas is None else int(replicas)


def rollout_of(deployment: Document) -> Rollout:
    """How it wants to be rolled out."""
    strategy = deployment["spec"].get("strategy") or {}
    replicas = replicas_of(deployment)
    if strategy.get("type") == "Recreate":
        return recreating(replicas)
    limits = strategy.get("rollingUpdate") or {}
    return rolling(replicas, limits.get("maxSurge"), limits.get("maxUnavailable"))


def generation_of(replica_set: Document) -> Generation:
    """A set as the arithmetic sees it."""
    metadata, status = replica_set["metadata"], replica_set.get("status") or {}
    return Generation(
        name=metadata["name"],
        replicas=replicas_of(replica_set),
        available=status.get("availableReplicas") or 0,
        created=metadata.get("creationTimestamp") or "",
        max_replicas=_number(replica_set, MAX_REPLICAS),
    )


def desired_of(replica_set: Document) -> int | None:
    """What the Deployment asked for when the set was last scaled."""
    return _number(replica_set, DESIRED_REPLICAS)


def find_new(deployment: Document, sets: Iterable[Document]) -> Document | None:
    """The set with the Deployment's template; of several, which only an upgrade of a cluster makes, the oldest."""
    template = deployment["spec"]["template"]
    same = (each for each in sets if is_same_template(each["spec"]["template"], template))
    return min(same, key=age_of, default=None)


def age_of(replica_set: Document) -> tuple[str, str]:
    """The oldest first."""
    metadata = replica_set["metadata"]
    return metadata.get("creationTimestamp") or "", metadata["name"]


def next_revision(old: Iterable[Document]) -> int:
    """One more than all that were before."""
    return max((_revision(each) or 0 for each in old), default=0) + 1


def revised(deployment: Document, annotations: Document, revision: int) -> Document:
    """The annotations of the new set: the Deployment's own, and the revision.

    A set that comes back, after a rollback, gets the newest number and remembers the ones it had.
    """
    copied = {
        key: value for key, value in (deployment["metadata"].get("annotations") or {}).items() if key not in _NOT_COPIED
    }
    found = {**annotations, **copied}
    former = found.get(REVISION) or ""
    number = parse_int64(former) if former else 0
    if number is None or number >= revision:
        return found
    found[REVISION] = str(revision)
    if former:
        found[HISTORY] = _with_revision(found.get(HISTORY) or "", former)
    return found


def sized(annotations: Document, rollout: Rollout) -> Document:
    """With the size of the whole Deployment, from which a scaling is told from a rollout."""
    return {
        **annotations,
        DESIRED_REPLICAS: str(rollout.replicas),
        MAX_REPLICAS: str(rollout.max_total),
    }


def new_set(deployment: Document, reference: Document, digest: str) -> Document:
    """The ReplicaSet of the Deployment's template, without pods yet. Its name follows from the template."""
    metadata, spec = deployment["metadata"], deployment["spec"]
    template = spec["template"]
    labels = {**((template.get("metadata") or {}).get("labels") or {}), POD_TEMPLATE_HASH: digest}
    selector = spec["selector"]
    made: Document = {
        "replicas": 0,
        "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), POD_TEMPLATE_HASH: digest}},
        "template": {**template, "metadata": {**(template.get("metadata") or {}), "labels": labels}},
    }
    if spec.get("minReadySeconds"):
        made["minReadySeconds"] = spec["minReadySeconds"]
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{metadata['name'][: _LONGEST_NAME - 1 - len(digest)]}-{digest}",
            "namespace": metadata["namespace"],
            "labels": labels,
            "ownerReferences": [reference],
        },
        "spec": made,
    }


def forgettable(deployment: Document, old: Iterable[Document]) -> list[Document]:
    """The oldest revisions beyond the limit, as far as they have no pods and are not being deleted already."""
    limit = deployment["spec"].get("revisionHistoryLimit")
    if limit is None or limit == UNLIMITED:
        return []
    kept = [each for each in old if not each["metadata"].get("deletionTimestamp")]
    by_revision = sorted(kept, key=lambda each: (_revision(each) or 0, age_of(each)))
    return [each for each in by_revision[: max(len(kept) - limit, 0)] if _is_empty(each)]


def _is_empty(replica_set: Document) -> bool:
    status = replica_set.get("status") or {}
    is_seen = (replica_set["metadata"].get("generation") or 0) <= (status.get("observedGeneration") or 0)
    return is_seen and not replicas_of(replica_set) and not status.get("replicas")


def _with_revision(history: str, revision: str) -> str:
    """The oldest entries make room; one number alone is never too long."""
    entries = [*filter(None, history.split(",")), revision]
    while len(entries) > 1 and len(",".join(entries)) > _LONGEST_HISTORY:
        del entries[0]
    return ",".join(entries)


def _revision(replica_set: Document) -> int | None:
    text = (replica_set["metadata"].get("annotations") or {}).get(REVISION) or ""
    return parse_int64(text)


def _number(replica_set: Document, annotation: str) -> int | None:
    """None also where it holds something else."""
    number = parse_int64((replica_set["metadata"].get("annotations") or {}).get(annotation) or "")
    return number if number is not None and 0 <= number <= UNLIMITED else None
