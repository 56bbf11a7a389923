"""Jobs: done when enough have succeeded, patient with pods that were evicted, and counted once whatever happens."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from jettison.controllers.machinery.objects import condition_of
from jettison.errors import Conflict, NotFound
from jettison.manifests.times import time_text
from jettison.runtimes.kube.client import DeleteOptions, PatchType
from jettison.runtimes.kube.kinds import JOBS, PODS
from tests.controllers.staging import (
    DeafClient,
    ForwardClock,
    Json,
    controlled,
    is_gone,
    until,
    until_status,
    until_told,
)
from tests.controllers.workloads import NOW, alive, change, until_alive
from tests.maintenance.playground import Playground, play

JOB = "job-controller"
FINALIZER = "batch.kubernetes.io/job-tracking"
IGNORE_DISRUPTIONS = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}


async def _job(ground: Playground, **spec: Any) -> Json:
    pod_spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "registry.example/app:1"}]}
    whole = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "job"},
        "spec": {"template": {"spec": {**pod_spec, **spec.pop("pod_spec", {})}}, **spec},
    }
    return await ground.client.create(JOBS, whole, ground.namespace)


async def _until_status(ground: Playground, **wanted: object) -> Json:
    return await until_status(ground.client, JOBS, "job", ground.namespace, **wanted)


async def _until_condition(ground: Playground, kind: str, status: str = "True") -> Json:
    async def look() -> Json | None:
        found = condition_of(await ground.client.get(JOBS, "job", ground.namespace), kind)
        return found if found is not None and found["status"] == status else None

    found = await until(look)
    assert found is not None
    return found


async def _end(ground: Playground, pod: Json, phase: str, *conditions: str, exit_code: int | None = None) -> None:
    now = time_text(time.time_ns())
    status: Json = {"phase": phase}
    status["conditions"] = [{"type": each, "status": "True", "lastTransitionTime": now} for each in conditions]
    if exit_code is not None:
        container: Json = {"name": "c", "image": "i", "imageID": "", "ready": False, "restartCount": 0}
        container["state"] = {"terminated": {"exitCode": exit_code, "finishedAt": now}}
        status["containerStatuses"] = [container]
    name, space = pod["metadata"]["name"], ground.namespace
    await ground.client.patch(PODS, name, {"status": status}, space, subresource="status")


def _ending(ground: Playground, how: Callable[[Json], str]) -> Callable[[], Any]:
    """One round of nodes on which every pod ends as `how` says."""

    async def round_() -> None:
        for pod in await ground.pods():
            metadata = pod["metadata"]
            try:
                if "deletionTimestamp" in metadata:
                    await ground.client.delete(PODS, metadata["name"], ground.namespace, NOW)
                elif pod["status"]["phase"] == "Pending":
                    await _end(ground, pod, how(pod))
            except (NotFound, Conflict):
                continue

    return round_


def _kinds(job: Json) -> list[str]:
    return [each["type"] for each in job["status"]["conditions"]]


def _indexes(pods: Iterable[Json]) -> list[str]:
    return sorted(each["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] for each in pods)


def test_it_runs_until_enough_have_succeeded(kubeconfig: Path) -> None:
    """Never more at a time than asked for; and at the end no pod is left uncounted."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        await _job(ground, completions=3, parallelism=2)
        most = 0

        def succeeds(_: Json) -> str:
            return "Succeeded"

        async with controlled(client, JOB):
            pods = await until_alive(ground, 2)
            await _until_status(ground, active=2, ready=0)

            async def watch() -> None:
                nonlocal most
                most = max(most, len(alive(await ground.pods())))

            async with ground.busy(watch, _ending(ground, succeeds)):
                await _until_condition(ground, "Complete")
            job = await client.get(JOBS, "job", space)
            created = ("Normal", "SuccessfulCreate", f"Created pod: {pods[0]['metadata']['name']}")
            await until_told(client, "job", space, created, ("Normal", "Completed", "Job completed"))
            # Nothing follows after the end.
            assert len(await ground.pods()) == 3
        assert most == 2
        uid = job["metadata"]["uid"]
        assert _kinds(job) == ["SuccessCriteriaMet", "Complete"]
        complete = condition_of(job, "Complete")
        assert complete is not None
        assert (complete["reason"], complete["message"]) == (
            "CompletionsReached",
            "Reached expected number of succeeded pods",
        )
        status = {key: value for key, value in job["status"].items() if key not in ("conditions", "startTime")}
        assert status == {
            "succeeded": 3,
            "ready": 0,
            "terminating": 0,
            "uncountedTerminatedPods": {},
            "completionTime": complete["lastTransitionTime"],
        }
        assert pods[0]["metadata"]["finalizers"] == [FINALIZER]
        assert not any(each["metadata"].get("finalizers") for each in await ground.pods())
        labels = pods[0]["metadata"]["labels"]
        assert labels == {
            "batch.kubernetes.io/controller-uid": uid,
            "batch.kubernetes.io/job-name": "job",
            "controller-uid": uid,
            "job-name": "job",
        }

    play(kubeconfig, scene)


def test_failures_are_waited_after_and_have_a_limit(kubeconfig: Path) -> None:
    """Ten seconds after the first failure; one more than the limit, and the others are told to go."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        clock = ForwardClock()
        await _job(ground, completions=2, parallelism=2, backoffLimit=1)
        async with controlled(client, JOB, clock=clock):
            one, two = await until_alive(ground, 2)
            await _end(ground, one, "Failed", exit_code=1)
            await _until_status(ground, failed=1, active=1)
            assert len(alive(await ground.pods())) == 1
            clock.forward(11)
            # The key has to be queued again: the queue waits by the machine's own clock.
            await ground.client.patch(JOBS, "job", {"metadata": {"labels": {"x": "y"}}}, space, how=PatchType.MERGE)
            pods = await until_alive(ground, 2)
            three = next(each for each in pods if each["metadata"]["name"] != two["metadata"]["name"])
            await _end(ground, three, "Failed", exit_code=1)
            await _until_condition(ground, "FailureTarget")

            async def are_gone() -> bool:
                return await is_gone(client, PODS, two["metadata"]["name"], space)

            await until(are_gone)
            failed = await _until_condition(ground, "Failed")
            job = await client.get(JOBS, "job", space)
            text = "Job has reached the specified backoff limit"
            await until_told(client, "job", space, ("Warning", "BackoffLimitExceeded", text))
        assert (failed["reason"], failed["message"]) == ("BackoffLimitExceeded", text)
        assert _kinds(job) == ["FailureTarget", "Failed"]
        # The one that was told to go has failed too.
        assert job["status"]["failed"] == 3
        assert "active" not in job["status"]
        assert "completionTime" not in job["status"]

    play(kubeconfig, scene)


def test_an_evicted_pod_is_replaced_and_counts_although_it_is_gone(kubeconfig: Path) -> None:
    """The API takes it away in an instant: it has no node. The finalizer keeps it until it is counted."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        clock = ForwardClock()
        await _job(ground)
        async with controlled(client, JOB, clock=clock):
            (pod,) = await until_alive(ground, 1)
            name = pod["metadata"]["name"]
            eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
            await client.create(PODS, eviction, space, "eviction")
            await _until_status(ground, failed=1)
            assert await is_gone(client, PODS, name, space)
            clock.forward(11)
            await ground.client.patch(JOBS, "job", {"metadata": {"labels": {"x": "y"}}}, space, how=PatchType.MERGE)
            (new,) = await until_alive(ground, 1)
            await _end(ground, new, "Succeeded")
            await _until_condition(ground, "Complete")
            job = await client.get(JOBS, "job", space)
        assert (job["status"]["failed"], job["status"]["succeeded"]) == (1, 1)

    play(kubeconfig, scene)


def test_a_policy_tells_evictions_from_bugs(kubeconfig: Path) -> None:
    """An ignored failure does not count; an exit code that cannot be helped ends the Job at once."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        clock = ForwardClock()
        rules = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
        policy = {"rules": [*IGNORE_DISRUPTIONS["rules"], rules]}
        made = await _job(ground, backoffLimit=0, podFailurePolicy=policy)
        assert made["spec"]["podReplacementPolicy"] == "Failed"
        async with controlled(client, JOB, clock=clock):
            (evicted,) = await until_alive(ground, 1)
            await _end(ground, evicted, "Failed", "DisruptionTarget", exit_code=137)

            async def is_counted() -> bool:
                return not (await client.get(PODS, evicted["metadata"]["name"], space))["metadata"].get("finalizers")

            await until(is_counted)
            clock.forward(11)
            await client.patch(JOBS, "job", {"metadata": {"labels": {"x": "y"}}}, space, how=PatchType.MERGE)
            (broken,) = await until_alive(ground, 1)
            assert "failed" not in (await client.get(JOBS, "job", space))["status"]
            await _end(ground, broken, "Failed", exit_code=42)
            failed = await _until_condition(ground, "Failed")
        name = broken["metadata"]["name"]
        assert failed["reason"] == "PodFailurePolicy"
        assert failed["message"] == (
            f"Container c for pod {space}/{name} failed with exit code 42 matching FailJob rule at index 1"
        )

    play(kubeconfig, scene)


def test_with_a_policy_no_pod_takes_the_place_of_one_that_has_not_ended(kubeconfig: Path) -> None:
    """How it ends may decide the Job, so a pod that is going is waited for."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        node = await ground.node("n")
        await _job(ground, podFailurePolicy=IGNORE_DISRUPTIONS, pod_spec={"nodeName": node})
        async with controlled(client, JOB):
            (pod,) = await until_alive(ground, 1)
            await client.delete(PODS, pod["metadata"]["name"], space)
            await _until_status(ground, terminating=1)
            assert len(await ground.pods()) == 1
            await _end(ground, pod, "Failed", "DisruptionTarget", exit_code=143)
            await client.delete(PODS, pod["metadata"]["name"], space, DeleteOptions(grace_seconds=0))

            async def is_over() -> bool:
                return await is_gone(client, PODS, pod["metadata"]["name"], space)

            await until(is_over)
            status = await _until_status(ground, terminating=0)
        assert "failed" not in status

    play(kubeconfig, scene)


def test_each_index_once(kubeconfig: Path) -> None:
    """Done ones are remembered, failed ones are tried again under their index."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        await _job(ground, completionMode="Indexed", completions=5, parallelism=3)
        async with controlled(client, JOB):
            pods = await until_alive(ground, 3)
            assert _indexes(pods) == ["0", "1", "2"]
            by_index = {_indexes([pod])[0]: pod for pod in pods}
            await _end(ground, by_index["1"], "Succeeded")
            await _until_status(ground, completedIndexes="1", succeeded=1)
            assert _indexes(await until_alive(ground, 3)) == ["0", "2", "3"]
            async with ground.busy(_ending(ground, lambda _: "Succeeded")):
                await _until_condition(ground, "Complete")
            status = (await client.get(JOBS, "job", space))["status"]
        assert (status["completedIndexes"], status["succeeded"]) == ("0-4", 5)
        pod = by_index["0"]
        assert pod["metadata"]["name"].startswith("job-0-")
        assert pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] == "0"
        assert pod["spec"]["hostname"] == "job-0"
        (variable,) = pod["spec"]["containers"][0]["env"]
        path = "metadata.labels['batch.kubernetes.io/job-completion-index']"
        assert (variable["name"], variable["valueFrom"]["fieldRef"]["fieldPath"]) == ("JOB_COMPLETION_INDEX", path)

    play(kubeconfig, scene)


def test_without_completions_the_first_success_is_enough(kubeconfig: Path) -> None:
    """No pod is made then, and those at work may end."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        await _job(ground, parallelism=2)
        async with controlled(client, JOB):
            one, two = await until_alive(ground, 2)
            await _end(ground, one, "Succeeded")
            await _until_status(ground, succeeded=1, active=1)
            await _end(ground, two, "Failed")
            await _until_condition(ground, "Complete")
            status = (await client.get(JOBS, "job", space))["status"]
            assert len(await ground.pods()) == 2
        assert (status["succeeded"], status["failed"]) == (1, 1)

    play(kubeconfig, scene)


def test_a_suspended_job_has_no_pods_and_no_time_passes_for_it(kubeconfig: Path) -> None:
    """Its pods go without having failed; its deadline begins anew when it goes on."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        clock = ForwardClock()
        await _job(ground, activeDeadlineSeconds=100, backoffLimit=0)
        async with controlled(client, JOB, clock=clock):
            await until_alive(ground, 1)
            await change(client, JOBS, "job", space, suspend=True)
            async with ground.busy(_ending(ground, lambda _: "Running")):
                await _until_condition(ground, "Suspended")
                status = await _until_status(ground, terminating=0, active=None)
            assert "failed" not in status
            clock.forward(200)
            await change(client, JOBS, "job", space, suspend=False)
            await until_alive(ground, 1)
            resumed = await _until_condition(ground, "Suspended", "False")
            assert resumed["reason"] == "JobResumed"
            clock.forward(90)
            await client.patch(JOBS, "job", {"metadata": {"labels": {"x": "y"}}}, space, how=PatchType.MERGE)
            await _until_status(ground, active=1)
            assert len(alive(await ground.pods())) == 1
            clock.forward(20)
            await client.patch(JOBS, "job", {"metadata": {"labels": {"x": "z"}}}, space, how=PatchType.MERGE)
            failed = await _until_condition(ground, "Failed")
            said = (("Normal", "Suspended", "Job suspended"), ("Normal", "Resumed", "Job resumed"))
            await until_told(client, "job", space, *said)
        assert failed["reason"] == "DeadlineExceeded"

    play(kubeconfig, scene)


def test_a_restart_counts_no_pod_twice(kubeconfig: Path) -> None:
    """Each time the controller is ended at some moment of its work, and the next one goes on."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        await _job(ground, completions=20, parallelism=5)
        async with ground.busy(_ending(ground, lambda _: "Succeeded")):
            while condition_of(await client.get(JOBS, "job", space), "Complete") is None:
                async with controlled(client, JOB):
                    await until_after(0.15)
        job = await client.get(JOBS, "job", space)
        assert job["status"]["succeeded"] == 20
        # A request that is cut off with its controller may be carried out after the next one has listed the pods.
        assert len(await ground.pods()) >= 20
        assert not any(each["metadata"].get("finalizers") for each in await ground.pods())

    play(kubeconfig, scene)


async def until_after(seconds: float) -> None:
    end = time.monotonic() + seconds

    async def is_over() -> bool:
        return time.monotonic() > end

    await until(is_over)


def test_pods_of_a_job_that_is_gone_are_let_go(kubeconfig: Path) -> None:
    """No Job counts them any more."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        await _job(ground, parallelism=2, completions=2)
        async with controlled(client, JOB):
            await until_alive(ground, 2)
            await client.delete(JOBS, "job", space, DeleteOptions(propagation="Background"))

            async def are_free() -> bool:
                return not any(each["metadata"].get("finalizers") for each in await ground.pods())

            await until(are_free)

    play(kubeconfig, scene)


def test_a_pod_whose_job_is_only_unheard_of_is_not_let_go(kubeconfig: Path) -> None:
    """The cache of pods may be ahead of that of Jobs. The pod after it, of a Job that never was, shows the work."""

    async def scene(ground: Playground) -> None:
        space = ground.namespace
        async with DeafClient(ground.client.access, JOBS) as client, controlled(client, JOB):
            await client.is_deaf.wait()
            uid = (await _job(ground))["metadata"]["uid"]
            for name, of in (("unheard", uid), ("left", f"{space}-never")):
                owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": of, "controller": True}
                await ground.pod(name, owner=owner, metadata={"finalizers": [FINALIZER]})

            async def is_let_go() -> bool:
                return "finalizers" not in (await client.get(PODS, "left", space))["metadata"]

            await until(is_let_go)
            assert (await client.get(PODS, "unheard", space))["metadata"]["finalizers"] == [FINALIZER]

    play(kubeconfig, scene)


def test_a_finished_job_goes_when_its_time_is_over(kubeconfig: Path) -> None:
    """Not before; and with its pods, for which the garbage collector sees."""

    async def scene(ground: Playground) -> None:
        client, space = ground.client, ground.namespace
        clock = ForwardClock()
        await _job(ground, ttlSecondsAfterFinished=60)
        async with controlled(
            client, JOB, "ttl-after-finished-controller", "garbage-collector-controller", clock=clock
        ):
            (pod,) = await until_alive(ground, 1)
            await _end(ground, pod, "Succeeded")
            await _until_condition(ground, "Complete")
            assert len(await ground.pods()) == 1
            clock.forward(61)
            await client.patch(JOBS, "job", {"metadata": {"labels": {"x": "y"}}}, space, how=PatchType.MERGE)

            async def is_over() -> bool:
                return await is_gone(client, JOBS, "job", space) and not await ground.pods()

            await until(is_over)

    play(kubeconfig, scene)
