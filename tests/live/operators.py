"""Two operators as people write them, with the official client and with lightkube: `operators.py official FILE NS`.

Each leads by a lease, watches ConfigMaps with its label, holds them with a finalizer, keeps a Deployment for each by
server-side apply, and cleans up before it lets them go.
"""

from __future__ import annotations

import sys
import uuid
from typing import Any

import lightkube
from kubernetes import client as official
from kubernetes import config as official_config
from kubernetes import dynamic
from kubernetes import watch as official_watch
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock
from lightkube.core.exceptions import ApiError
from lightkube.models.apps_v1 import DeploymentSpec
from lightkube.models.coordination_v1 import LeaseSpec
from lightkube.models.core_v1 import Container, PodSpec, PodTemplateSpec
from lightkube.models.meta_v1 import LabelSelector, ObjectMeta
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.coordination_v1 import Lease
from lightkube.resources.core_v1 import ConfigMap
from lightkube.types import PatchType

Json = dict[str, Any]

FINALIZER = "operators.example/cleanup"
LABEL = "operators.example/app"


class OfficialOperator:
    """With the official client: its elector, its watch, its dynamic client for applying."""

    def __init__(self, kubeconfig: str, namespace: str) -> None:
        # The client's functions take and give what its types deny: here it is Any.
        make: Any = official_config.new_client_from_config
        self.api: Any = make(kubeconfig)
        official.Configuration.set_default(self.api.configuration)
        self.core: Any = official.CoreV1Api(self.api)
        self.namespace = namespace

    def run(self) -> None:
        make: Any = LeaseLock
        lock = make("official", self.namespace, str(uuid.uuid4()))
        configure: Any = electionconfig.Config
        config = configure(
            lock,
            lease_duration=6,
            renew_deadline=4,
            retry_period=1,
            onstarted_leading=self.lead,
            onstopped_leading=None,
        )
        elector: Any = leaderelection.LeaderElection
        elector(config).run()

    def lead(self) -> None:
        make: Any = dynamic.DynamicClient
        deployments = make(self.api).resources.get(api_version="apps/v1", kind="Deployment")
        watch: Any = official_watch.Watch
        watching = watch()
        listing = self.core.list_namespaced_config_map
        for event in watching.stream(listing, self.namespace, label_selector=LABEL, timeout_seconds=60):
            if event["type"] != "DELETED":
                self.reconcile(event["object"], deployments)

    def reconcile(self, found: Any, deployments: Any) -> None:
        name, finalizers = found.metadata.name, found.metadata.finalizers or []
        if found.metadata.deletion_timestamp is not None:
            if FINALIZER in finalizers:
                deployments.delete(name=name, namespace=self.namespace)
                self.core.patch_namespaced_config_map(name, self.namespace, {"metadata": {"finalizers": None}})
            return
        if FINALIZER not in finalizers:
            self.core.patch_namespaced_config_map(name, self.namespace, {"metadata": {"finalizers": [FINALIZER]}})
        body = _deployment(name, found.data["image"], int(found.data["replicas"]))
        deployments.server_side_apply(
            body=body, name=name, namespace=self.namespace, field_manager="official-operator", force_conflicts=True
        )


class LightOperator:
    """With lightkube: a lease by hand, as its users write it."""

    def __init__(self, kubeconfig: str, namespace: str) -> None:
        config = lightkube.KubeConfig.from_file(kubeconfig)
        self.client = lightkube.Client(config=config, namespace=namespace, field_manager="light-operator")

    def run(self) -> None:
        spec = LeaseSpec(holderIdentity="light", leaseDurationSeconds=15)
        try:
            self.client.create(Lease(metadata=ObjectMeta(name="light"), spec=spec))
        except ApiError as error:
            if error.status.reason != "AlreadyExists":
                raise
            return
        for kind, found in self.client.watch(ConfigMap, labels={LABEL: "light"}):
            if kind != "DELETED":
                self.reconcile(found)

    def reconcile(self, found: ConfigMap) -> None:
        assert found.metadata is not None
        assert found.metadata.name is not None
        name, finalizers, data = found.metadata.name, found.metadata.finalizers or [], found.data or {}
        if found.metadata.deletionTimestamp is not None:
            if FINALIZER in finalizers:
                self.client.delete(Deployment, name)
                self.client.patch(ConfigMap, name, {"metadata": {"finalizers": None}}, patch_type=PatchType.MERGE)
            return
        if FINALIZER not in finalizers:
            self.client.patch(ConfigMap, name, {"metadata": {"finalizers": [FINALIZER]}}, patch_type=PatchType.MERGE)
        labels = {"app": name}
        template = PodTemplateSpec(
            metadata=ObjectMeta(labels=labels), spec=PodSpec(containers=[Container(name="c", image=data["image"])])
        )
        spec = DeploymentSpec(LabelSelector(matchLabels=labels), template, replicas=int(data["replicas"]))
        self.client.apply(Deployment(metadata=ObjectMeta(name=name), spec=spec), force=True)


def _deployment(name: str, image: str, replicas: int) -> Json:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": image}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


if __name__ == "__main__":
    kind, kubeconfig, namespace = sys.argv[1:]
    (OfficialOperator if kind == "official" else LightOperator)(kubeconfig, namespace).run()
