"""How a Deployment may want to be rolled out."""

from __future__ import annotations

import pytest

from tests.apiserver.served import Json, Served

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def _deployment(**spec: object) -> Json:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    whole = {"selector": {"matchLabels": {"app": "web"}}, "template": template, **spec}
    return {"metadata": {"name": "d"}, "spec": whole}


def _rolling(**limits: object) -> Json:
    return _deployment(strategy={"type": "RollingUpdate", "rollingUpdate": limits})


LIMITS = "spec.strategy.rollingUpdate"
MISTAKES = [
    (_rolling(maxSurge=0, maxUnavailable="0%"), f'{LIMITS}.maxUnavailable: Invalid value: "0%": may not be 0 when'),
    (_rolling(maxSurge=-1), f"{LIMITS}.maxSurge: Invalid value: -1: must be greater than or equal to 0"),
    (_rolling(maxSurge="many"), f'{LIMITS}.maxSurge: Invalid value: "many": a valid percent string must be'),
    (_rolling(maxUnavailable="101%"), f'{LIMITS}.maxUnavailable: Invalid value: "101%": must not be greater than'),
    (
        _deployment(strategy={"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}),
        f"{LIMITS}: Forbidden: may not be specified when strategy `type` is 'Recreate'",
    ),
    (_deployment(strategy={"type": "Sideways"}), 'supported values: "Recreate", "RollingUpdate"'),
    (
        _deployment(progressDeadlineSeconds=5, minReadySeconds=5),
        "spec.progressDeadlineSeconds: Invalid value: 5: must be greater than minReadySeconds",
    ),
    (_deployment(progressDeadlineSeconds=-1), "spec.progressDeadlineSeconds: Invalid value: -1: must be greater"),
]


@pytest.mark.parametrize(("document", "text"), MISTAKES, ids=[text for _, text in MISTAKES])
def test_mistakes(api: Served, document: Json, text: str) -> None:
    answer = api.post(DEPLOYMENTS, document)
    assert answer.code == 422
    assert text in answer.message


@pytest.mark.parametrize(
    "document",
    [_rolling(maxSurge="250%", maxUnavailable="100%"), _rolling(maxSurge=0, maxUnavailable=1)],
    ids=["more than all", "one at a time"],
)
def test_what_may_be(api: Served, document: Json) -> None:
    assert api.post(DEPLOYMENTS, document).code == 201


def test_another_strategy_must_take_its_limits_along(api: Served) -> None:
    """Why kubectl sends null for them."""
    assert api.post(DEPLOYMENTS, _deployment()).code == 201
    answer = api.patch(f"{DEPLOYMENTS}/d", {"spec": {"strategy": {"type": "Recreate"}}})
    assert "Forbidden: may not be specified" in answer.message
    whole = {"type": "Recreate", "rollingUpdate": None}
    assert api.patch(f"{DEPLOYMENTS}/d", {"spec": {"strategy": whole}}).code == 200
