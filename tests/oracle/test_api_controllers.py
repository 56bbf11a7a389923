"""The recorded scenarios that need controllers, against our own server with all of its controllers.

The scheduler is left out: upstream's was not running when they were recorded.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from api import chosen, run_scenario
from api_world import Client

from tests.live.served import serving

SCENARIOS = {
    name: each for name, each in chosen(set(), {"static"}) if "controllers" in each["tags"] or "pdb" in each["tags"]
}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with serving(tmp_path_factory.mktemp("oracle") / "state", "--controllers=*,-scheduler") as server:
        asking = Client(server.url, server.token(), str(server.folder / "cluster" / "pki" / "ca.crt"))
        yield asking
        asking.close()


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_the_answers_are_kubernetes_own(client: Client, name: str) -> None:
    findings = run_scenario(client, name, SCENARIOS[name])
    assert not findings, "\n".join(map(str, findings))


def test_there_is_something_to_play() -> None:
    assert len(SCENARIOS) > 25
