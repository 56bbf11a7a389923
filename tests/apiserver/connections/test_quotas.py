"""Which connection is closed when there are too many: unauthenticated ones displace each other, users are refused."""

from __future__ import annotations

import pytest

from jettison.apiserver.connections.quotas import MOST_CONNECTIONS, ConnectionQuotas, Shares, shares_within


class Connected:
    def __init__(self, *, is_idle: bool = True) -> None:
        self.is_idle = is_idle
        self.is_dropped = False

    def drop(self) -> None:
        self.is_dropped = True


def connect(
    quotas: ConnectionQuotas, count: int, address: str = "192.0.2.1", *, is_idle: bool = True
) -> list[Connected]:
    added = [Connected(is_idle=is_idle) for _ in range(count)]
    for each in added:
        quotas.add(each, address)
    return added


def assign(quotas: ConnectionQuotas, count: int, user: str, *, is_idle: bool = False) -> list[bool]:
    found = []
    for _ in range(count):
        (connection,) = connect(quotas, 1, is_idle=is_idle)
        found.append(quotas.assign(connection, user, is_administrator=user == "admin"))
        if not found[-1]:
            quotas.remove(connection)
    return found


SHARES = Shares(160)  # 30 unauthenticated, 120 of users, 90 of one; at least 10 are left for administrators


def test_a_new_connection_is_accepted_and_the_oldest_of_the_busiest_address_is_closed() -> None:
    quotas = ConnectionQuotas(SHARES)
    probe = connect(quotas, 1, "192.0.2.9")[0]
    flood = connect(quotas, 4300)
    assert not probe.is_dropped
    assert [each.is_dropped for each in flood] == [True] * (4300 - 29) + [False] * 29
    assert len(quotas) == 30


def test_a_connection_that_is_being_answered_is_closed_last() -> None:
    quotas = ConnectionQuotas(SHARES)
    busy = connect(quotas, 1, is_idle=False)[0]
    connect(quotas, 100)
    assert not busy.is_dropped
    all_of_them = [busy, *connect(quotas, 100, is_idle=False)]
    assert sum(not each.is_dropped for each in all_of_them) == 30


def test_an_unauthenticated_flood_takes_nothing_from_authenticated_users() -> None:
    quotas = ConnectionQuotas(SHARES)
    known = connect(quotas, 20)
    assert all(quotas.assign(each, "viewer", is_administrator=False) for each in known)
    connect(quotas, 4300)
    assert not any(each.is_dropped for each in known)


def test_one_user_cannot_take_what_is_left_for_another_nor_all_users_what_is_the_administrators() -> None:
    quotas = ConnectionQuotas(SHARES)
    assert assign(quotas, 100, "viewer").count(True) == 90
    assert assign(quotas, 100, "evictor").count(True) == 30
    assert assign(quotas, 20, "admin").count(True) == 10
    assert assign(quotas, 1, "another").count(True) == 0


def test_idle_connections_of_a_user_make_room_for_its_own() -> None:
    quotas = ConnectionQuotas(SHARES)
    assert assign(quotas, 200, "viewer", is_idle=True).count(True) == 200
    assert assign(quotas, 30, "evictor").count(True) == 30


def test_a_closed_connection_is_forgotten() -> None:
    quotas = ConnectionQuotas(SHARES)
    for each in (*connect(quotas, 30), *connect(quotas, 3, "192.0.2.2")):
        quotas.assign(each, "viewer", is_administrator=False)
        quotas.remove(each)
        quotas.remove(each)
    assert len(quotas) == 0
    assert assign(quotas, 90, "viewer").count(True) == 90


def test_a_second_token_on_the_same_connection_moves_it() -> None:
    quotas = ConnectionQuotas(SHARES)
    (connection,) = connect(quotas, 1)
    for user in ("viewer", "evictor", "evictor", "viewer"):
        assert quotas.assign(connection, user, is_administrator=False)
    assert len(quotas) == 1
    assert assign(quotas, 89, "viewer").count(True) == 89


@pytest.mark.parametrize(
    ("files", "connections"), [(1024, 768), (4096, 3072), (20_000, MOST_CONNECTIONS), (65_536, MOST_CONNECTIONS)]
)
def test_files_are_left_for_the_store(files: int, connections: int) -> None:
    shares = shares_within(files)
    assert shares.all == connections
    assert shares.one_user < shares.users < shares.all - shares.unauthenticated < files - 128
