"""The eviction subresource: which pod may go, what it costs, and what is left when something fails half-way.

The numbers of the worked examples were observed on Kubernetes v1.36.4.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jettison.apiserver.objects.resources import BUDGETS as BUDGET_RESOURCE
from jettison.apiserver.objects.resources import PODS as POD_RESOURCE
from jettison.apiserver.storage.log import Log
from jettison.apiserver.storage.stored import Change
from jettison.apiserver.verbs.eviction import Settings
from jettison.engine.budgets.budget import BETTER
from tests.apiserver.served import BUDGETS, MERGE, PODS, Answer, Served

Json = dict[str, Any]

WRONG_UID = {"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}}
UNPROCESSED = "The disruption budget pdb is still being processed by the server."


def status(allowed: int, healthy: int = 0, desired: int = 0, **rest: Any) -> Json:
    return {"disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": desired, **rest}


def budget_status(api: Served) -> Json:
    found: Json = api.get(f"{BUDGETS}/pdb").body["status"]
    return found


def target_condition(pod: Json) -> Json | None:
    return next((each for each in pod["status"].get("conditions", ()) if each["type"] == "DisruptionTarget"), None)


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[Served]:
    """Kubernetes' rules without its patience."""
    served = Served(tmp_path / "cluster", Settings(pause_seconds=0))
    yield served
    served.close()


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[Served]:
    served = Served(tmp_path / "cluster", Settings(switches=BETTER))
    yield served
    served.close()


def test_an_evicted_pod_is_told_why_and_deleted_with_its_grace(api: Served) -> None:
    api.pod("p", terminationGracePeriodSeconds=17)
    answer = api.evict("p")
    assert answer.code == 201
    assert answer.body == {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    pod = api.get(f"{PODS}/p").body
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 17
    assert pod["metadata"]["generation"] == 2
    condition = target_condition(pod)
    assert condition is not None
    assert (condition["status"], condition["reason"]) == ("True", "EvictionByEvictionAPI")
    assert condition["message"] == "Eviction API: evicting"


def test_a_granted_eviction_is_written_to_the_budget_first(api: Served) -> None:
    api.pod("p")
    api.budget(minAvailable=3, status=status(2, 5, 3))
    before = api.store.version
    assert api.evict("p").code == 201
    # Budget, condition, deletion: three writes in this order.
    assert api.store.version == before + 3
    left = budget_status(api)
    assert (left["disruptionsAllowed"], list(left["disruptedPods"])) == (1, ["p"])
    assert "conditions" not in left


def test_the_last_disruption_flips_the_condition(api: Served) -> None:
    api.pod("p")
    api.budget(minAvailable=3, status=status(1, 4, 3))
    assert api.evict("p").code == 201
    left = budget_status(api)
    assert left["disruptionsAllowed"] == 0
    (condition,) = left["conditions"]
    assert (condition["type"], condition["status"]) == ("DisruptionAllowed", "False")
    assert (condition["reason"], condition["observedGeneration"]) == ("InsufficientPods", 1)


REFUSALS: list[tuple[str, Json, bool, str]] = [
    ("nothing to spare", status(0, 3, 3), True, "The disruption budget pdb needs 3 healthy pods and has 3 currently"),
    ("unready below", status(0, 3, 4), False, "The disruption budget pdb needs 4 healthy pods and has 3 currently"),
    ("unready, none needed", status(0), False, "The disruption budget pdb needs 0 healthy pods and has 0 currently"),
    ("just spent", status(0, 3, 1), True, "The disruption budget pdb does not allow evicting pods currently"),
]


@pytest.mark.parametrize(("numbers", "ready", "cause"), [row[1:] for row in REFUSALS], ids=[row[0] for row in REFUSALS])
def test_a_refusal_names_its_cause_and_no_time(api: Served, numbers: Json, ready: bool, cause: str) -> None:
    """A Retry-After of 0 would be obeyed as ten immediate repeats."""
    api.pod("p", ready=ready)
    api.budget(minAvailable=1, status=numbers)
    before = api.store.version
    answer = api.evict("p")
    assert (answer.code, answer.body["reason"]) == (429, "TooManyRequests")
    assert answer.message == "Cannot evict pod as it would violate the pod's disruption budget."
    assert answer.body["details"] == {"causes": [{"reason": "DisruptionBudget", "message": cause}]}
    assert "retry-after" not in answer.headers
    assert api.store.version == before


def test_an_unprocessed_budget_asks_for_ten_seconds(api: Served) -> None:
    api.pod("p")
    api.budget(minAvailable=1)
    answer = api.evict("p")
    assert (answer.code, answer.headers["retry-after"]) == (429, "10")
    cause = {"reason": "DisruptionBudget", "message": UNPROCESSED}
    assert answer.body["details"] == {"causes": [cause], "retryAfterSeconds": 10}


@pytest.mark.parametrize(
    ("policy", "numbers"), [({}, status(0, 4, 4)), ({"unhealthyPodEvictionPolicy": "AlwaysAllow"}, status(0, 0, 4))]
)
def test_an_unready_pod_goes_without_touching_the_budget(api: Served, policy: Json, numbers: Json) -> None:
    api.pod("p", ready=False)
    api.budget(minAvailable=4, status=numbers, **policy)
    before = budget_status(api)
    assert api.evict("p").code == 201
    assert budget_status(api) == before


def test_an_unready_pod_spends_where_none_is_needed(api: Served) -> None:
    api.pod("p", ready=False)
    api.budget(minAvailable=0, status=status(2, 2, 0))
    assert api.evict("p").code == 201
    assert budget_status(api)["disruptionsAllowed"] == 1


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
def test_a_pod_that_has_not_begun_or_has_ended_needs_no_budget(api: Served, phase: str) -> None:
    api.pod("p", phase=phase, ready=None)
    for name in ("one", "two"):
        api.budget(name, minAvailable=1, status=status(0))
    assert api.evict("p").code == 201
    assert api.get(f"{PODS}/p").code == (200 if phase == "Pending" else 404)


def test_a_terminating_pod_is_relabelled_and_keeps_its_grace(api: Served) -> None:
    api.pod("p")
    api.budget(minAvailable=1, status=status(0))
    api.delete(f"{PODS}/p", {"gracePeriodSeconds": 60})
    assert api.evict("p").code == 201
    pod = api.get(f"{PODS}/p").body
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 60
    assert target_condition(pod) is not None


def test_two_budgets_are_too_many(api: Served) -> None:
    api.pod("p")
    for name in ("one", "two"):
        api.budget(name, minAvailable=1, status=status(5, 6, 1))
    answer = api.evict("p")
    assert answer.code == 500
    assert "more than one PodDisruptionBudget" in answer.message
    assert {"reason", "details"}.isdisjoint(answer.body)


@pytest.mark.parametrize(("entries", "code"), [(2000, 201), (2001, 403)])
def test_the_map_of_disrupted_pods_has_an_end(api: Served, entries: int, code: int) -> None:
    api.pod("p")
    disrupted = {f"x{each}": "2027-01-01T00:00:00Z" for each in range(entries)}
    api.budget(minAvailable=1, status=status(5, 6, 1, disruptedPods=disrupted))
    answer = api.evict("p")
    assert answer.code == code
    if code == 403:
        assert "DisruptedPods map too big" in answer.message
        assert answer.body["details"] == {"name": "pdb", "group": "policy", "kind": "poddisruptionbudget"}
    else:
        assert len(budget_status(api)["disruptedPods"]) == 2001


@pytest.mark.parametrize("options", [{"dryRun": ["All"]}, None])
def test_a_dry_run_changes_nothing(api: Served, options: Json | None) -> None:
    api.pod("p")
    api.budget(minAvailable=1, status=status(1, 2, 1))
    before = api.store.version
    assert api.evict("p", options, query="" if options else "dryRun=All").code == 201
    assert api.store.version == before


def test_dry_runs_that_disagree_are_an_error_without_a_reason(api: Served) -> None:
    api.pod("p")
    answer = api.evict("p", {"dryRun": ["Bad"]}, query="dryRun=All")
    assert (answer.code, answer.message) == (
        500,
        "Non-matching dry-run options in request and content: [All] and [Bad]",
    )
    assert {"reason", "details"}.isdisjoint(answer.body)


def test_a_wrong_dry_run_in_the_body_runs_as_one_and_fails_at_the_end(api: Served) -> None:
    api.pod("p")
    answer = api.evict("p", {"dryRun": ["Bad"]})
    assert answer.code == 422
    text = 'DeleteOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Bad"]: supported values: "All"'
    assert answer.message == text


# What upstream leaves behind when something fails half-way, and what `strict` does instead.


def test_a_wrong_uid_costs_a_disruption(api: Served) -> None:
    api.pod("p")
    api.budget(minAvailable=1, status=status(1, 2, 1))
    answer = api.evict("p", WRONG_UID)
    assert (answer.code, answer.body["details"]) == (409, {"name": "p", "kind": "Pod"})
    assert budget_status(api)["disruptionsAllowed"] == 0
    assert "deletionTimestamp" not in api.get(f"{PODS}/p").body["metadata"]


def test_strict_checks_before_it_spends(strict: Served) -> None:
    strict.pod("p")
    strict.budget(minAvailable=1, status=status(1, 2, 1))
    assert strict.evict("p", WRONG_UID).code == 409
    assert strict.evict("p", {"propagationPolicy": "Bad"}).code == 422
    assert budget_status(strict)["disruptionsAllowed"] == 1
    assert target_condition(strict.get(f"{PODS}/p").body) is None


def test_invalid_options_are_found_after_the_condition_is_written(api: Served) -> None:
    api.pod("p")
    answer = api.evict("p", {"propagationPolicy": "Bad"})
    assert answer.code == 422
    assert 'supported values: "Foreground", "Background", "Orphan", "nil"' in answer.message
    assert target_condition(api.get(f"{PODS}/p").body) is not None


def counted_tries(served: Served) -> list[int]:
    """Grows by one with each attempt to write."""
    tried: list[int] = []
    real = served.store.settled

    async def count() -> None:
        tried.append(1)
        await real()

    served.store.settled = count  # type: ignore[method-assign]
    return tried


def test_a_hopeless_conflict_of_a_pending_pod_is_tried_twenty_times(quick: Served) -> None:
    quick.pod("p", phase="Pending", ready=None)
    tried = counted_tries(quick)
    assert quick.evict("p", WRONG_UID).code == 409
    assert len(tried) == 20


def test_a_wrong_version_of_a_pending_pod_is_refused_at_once(quick: Served) -> None:
    quick.pod("p", phase="Pending", ready=None)
    tried = counted_tries(quick)
    assert quick.evict("p", {"preconditions": {"resourceVersion": "1"}}).code == 409
    assert len(tried) == 1


def test_the_deadline_holds_during_retries(api: Served) -> None:
    api.pod("p", phase="Pending", ready=None)
    answer = api.evict("p", WRONG_UID, query="timeout=100ms")
    assert (answer.code, answer.body["reason"]) == (504, "Timeout")


def test_a_wrong_uid_of_an_unready_pod_looks_unprocessed(api: Served) -> None:
    api.pod("p", ready=False)
    api.budget(minAvailable=1, status=status(0), unhealthyPodEvictionPolicy="AlwaysAllow")
    answer = api.evict("p", WRONG_UID)
    assert (answer.code, answer.headers["retry-after"]) == (429, "10")


def test_a_stale_version_of_an_unready_pod_is_overwritten(api: Served) -> None:
    api.pod("p", ready=False)
    api.budget(minAvailable=1, status=status(0), unhealthyPodEvictionPolicy="AlwaysAllow")
    assert api.evict("p", {"preconditions": {"resourceVersion": "3"}}).code == 201


def test_two_budgets_are_spent_together_or_not_at_all(strict: Served) -> None:
    strict.pod("p")
    strict.pod("q")
    strict.budget(minAvailable=1, status=status(2, 3, 1))
    strict.budget("other", minAvailable=1, status=status(1, 2, 1))
    assert strict.evict("p").code == 201
    for name, left in (("pdb", 1), ("other", 0)):
        found = strict.get(f"{BUDGETS}/{name}").body["status"]
        assert (found["disruptionsAllowed"], list(found["disruptedPods"])) == (left, ["p"])
    refusal = strict.evict("q")
    assert refusal.code == 429
    assert refusal.body["details"]["causes"][0]["message"].startswith("The disruption budget other ")
    assert budget_status(strict)["disruptionsAllowed"] == 1


def test_strict_keeps_the_version_of_the_client(strict: Served) -> None:
    strict.pod("p", ready=False)
    strict.budget(minAvailable=1, status=status(0), unhealthyPodEvictionPolicy="AlwaysAllow")
    assert strict.evict("p", {"preconditions": {"resourceVersion": "3"}}).code == 409


def test_an_empty_uid_is_refused_and_an_empty_version_repaired(api: Served) -> None:
    api.pod("p")
    answer = api.evict("p", {"preconditions": {"uid": ""}})
    assert (answer.code, "the UID in the precondition () does not match" in answer.message) == (409, True)
    assert api.evict("p", {"preconditions": {"resourceVersion": ""}}).code == 201


def test_the_body_must_name_the_pod_of_the_path(api: Served) -> None:
    api.pod("p")
    answer = api.post(f"{PODS}/p/eviction", {"metadata": {"name": "q"}})
    assert (answer.code, answer.message) == (400, "name in URL does not match name in Eviction object")
    answer = api.post(f"{PODS}/p/eviction", {"metadata": {"name": "p", "namespace": "elsewhere"}})
    assert answer.message == "the namespace of the provided object does not match the namespace sent on the request"


def test_an_option_that_could_break_a_cluster_is_refused(api: Served) -> None:
    api.pod("p")
    answer = api.evict("p", {"ignoreStoreReadErrorWithClusterBreakingPotential": True})
    assert answer.code == 422
    assert answer.message.endswith("can not be set for pod eviction, try after removing the option")


def test_what_is_not_there_cannot_be_evicted(api: Served) -> None:
    assert api.evict("p").message == 'pods "p" not found'
    answer = api.post("/api/v1/namespaces/none/pods/p/eviction", {"metadata": {"name": "p"}})
    assert answer.message == 'namespaces "none" not found'


def test_a_terminating_namespace_refuses_with_its_cause(api: Served) -> None:
    api.post("/api/v1/namespaces", {"metadata": {"name": "x"}})
    api.delete("/api/v1/namespaces/x")
    answer = api.post("/api/v1/namespaces/x/pods/p/eviction", {"metadata": {"name": "p"}})
    assert answer.code == 403
    assert answer.body["details"]["causes"][0]["reason"] == "NamespaceTerminating"


def test_only_post_and_no_table(api: Served) -> None:
    api.pod("p")
    assert api.get(f"{PODS}/p/eviction").code == 405
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    assert api.evict("p", accept=table).code == 406


def test_an_evictor_may_evict_and_not_delete(api: Served) -> None:
    api.pod("p")
    assert api.delete(f"{PODS}/p", token="evictor").code == 403
    assert api.evict("p", token="viewer").code == 403
    assert api.evict("p", token="evictor").code == 201


def test_concurrent_evictions_never_exceed_the_budget(api: Served) -> None:
    for each in range(40):
        api.pod(f"p{each}")
    api.budget(minAvailable=30, status=status(10, 40, 30))
    bodies = ({"metadata": {"name": f"p{each}"}} for each in range(40))
    answers = api.together(api.ask("POST", f"{PODS}/{body['metadata']['name']}/eviction", body) for body in bodies)
    assert Counter(answer.code for answer in answers) == {201: 10, 429: 30}
    left = budget_status(api)
    assert (left["disruptionsAllowed"], len(left["disruptedPods"])) == (0, 10)


def test_evictions_that_come_together_spend_their_budget_in_one_write(api: Served) -> None:
    """A budget that names hundreds of disrupted pods is long: one write, row and event for each would cost more than
    all else. It stays before the first pod that it lets go."""
    for each in range(5):
        api.pod(f"p{each}")
    api.budget(minAvailable=1, status=status(5, 6, 1))
    budgets: list[Change] = []
    pods: list[Change] = []
    api.store.follow(BUDGET_RESOURCE, api.store.version, budgets.append)
    api.store.follow(POD_RESOURCE, api.store.version, pods.append)
    bodies = [{"metadata": {"name": f"p{each}"}} for each in range(5)]
    answers = api.together(api.ask("POST", f"{PODS}/{body['metadata']['name']}/eviction", body) for body in bodies)
    assert [answer.code for answer in answers] == [201] * 5
    (spent,) = budgets
    assert spent.stored.object["status"]["disruptionsAllowed"] == 0
    assert sorted(spent.stored.object["status"]["disruptedPods"]) == [f"p{each}" for each in range(5)]
    assert spent.stored.version < pods[0].stored.version
    assert len(pods) == 10
    assert target_condition(pods[0].stored.object) is not None


def test_a_status_that_a_client_writes_between_two_evictions_keeps_its_version(api: Served) -> None:
    """The client is shown what it wrote, and the eviction behind it is another version."""
    for name in "ab":
        api.pod(name)
    api.budget(minAvailable=1, status=status(5, 6, 1))
    counted = {"status": {"disruptionsAllowed": 3}}
    first, written, second = api.together(
        [
            api.ask("POST", f"{PODS}/a/eviction", {"metadata": {"name": "a"}}),
            api.ask("PATCH", f"{BUDGETS}/pdb/status", counted, content_type=MERGE),
            api.ask("POST", f"{PODS}/b/eviction", {"metadata": {"name": "b"}}),
        ]
    )
    assert [first.code, written.code, second.code] == [201, 200, 201]
    assert written.body["status"]["disruptionsAllowed"] == 3
    version = int(written.body["metadata"]["resourceVersion"])
    then = next(each for each in api.store.list_at(BUDGET_RESOURCE, "default", version))
    assert then.object["status"]["disruptionsAllowed"] == 3
    assert budget_status(api)["disruptionsAllowed"] == 2


def test_a_budget_written_by_another_client_is_read_again(api: Served) -> None:
    """The handler keeps budgets as values; a controller's write in between must count."""
    for name in "ab":
        api.pod(name)
    api.budget(minAvailable=1, status=status(2, 3, 1))
    assert api.evict("a").code == 201
    api.patch(f"{BUDGETS}/pdb/status", {"status": {"disruptionsAllowed": 0}})
    assert api.evict("b").code == 429
    api.patch(f"{BUDGETS}/pdb", {"spec": {"selector": {"matchLabels": {"app": "other"}}}})
    assert api.evict("b").code == 201


def test_a_budget_that_is_just_being_counted_is_waited_for(api: Served) -> None:
    """Its spec is younger than any controller can be quick."""
    api.pod("p")
    api.budget(minAvailable=0)
    counted = {"status": status(1, 1, observedGeneration=1)}

    async def count() -> Answer:
        await asyncio.sleep(0.05)
        return await api.ask("PATCH", f"{BUDGETS}/pdb/status", counted, content_type=MERGE)

    evicted = api.ask("POST", f"{PODS}/p/eviction", {"metadata": {"name": "p"}})
    assert [answer.code for answer in api.together([evicted, count()])] == [201, 200]


def test_a_budget_that_the_disk_refused_is_not_believed(api: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """An eviction that came in while the changed selector was on its way to the disk has read it. It was never stored,
    so the next one is judged by the old one."""
    for number in range(3):
        api.pod(f"p{number}")
    api.budget(minAvailable=3, status=status(0, 3, 3))
    real = Log.commit

    def refuse(log: Log) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(Log, "commit", refuse)
    elsewhere = {"spec": {"selector": {"matchLabels": {"app": "other"}}}}
    body = {"metadata": {"name": "p0"}}
    answers = api.together(
        [
            api.ask("PATCH", f"{BUDGETS}/pdb", elsewhere, content_type=MERGE),
            api.ask("POST", f"{PODS}/p0/eviction", body),
        ]
    )
    assert [answer.code for answer in answers] == [500, 500]
    monkeypatch.setattr(Log, "commit", real)
    # A later write brings the store past the versions that were given up.
    assert api.patch(f"{PODS}/p2", {"metadata": {"annotations": {"a": "b"}}}).code == 200
    assert [api.evict(f"p{number}").code for number in range(3)] == [429, 429, 429]


def test_the_kind_of_options_is_part_of_another_struct(api: Served) -> None:
    api.pod("p")
    answer = api.evict("p", {"kind": 5})
    why = "json: cannot unmarshal number into Go struct field DeleteOptions.deleteOptions.TypeMeta.kind of type string"
    assert answer.message == f'Eviction in version "v1" cannot be handled as a Eviction: {why}'
