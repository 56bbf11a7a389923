"""Whose connection goes when there are too many: strangers drive out strangers, users are refused, health gets in."""

from __future__ import annotations

import pytest

from jettison.apiserver.connections.crowds import MOST_CONNECTIONS, Crowds, Shares, shares_within


class Connected:
    def __init__(self, *, is_idle: bool = True) -> None:
        self.is_idle = is_idle
        self.is_dropped = False

    def drop(self) -> None:
        self.is_dropped = True


def enter(crowds: Crowds, count: int, address: str = "192.0.2.1", *, is_idle: bool = True) -> list[Connected]:
    entered = [Connected(is_idle=is_idle) for _ in range(count)]
    for each in entered:
        crowds.enter(each, address)
    return entered


def recognise(crowds: Crowds, count: int, user: str, *, is_idle: bool = False) -> list[bool]:
    found = []
    for _ in range(count):
        (connection,) = enter(crowds, 1, is_idle=is_idle)
        found.append(crowds.recognise(connection, user, is_administrator=user == "admin"))
        if not found[-1]:
            crowds.leave(connection)
    return found


SHARES = Shares(160)  # 30 strangers, 120 of users, 90 of one; at least 10 are left for administrators


def test_a_new_stranger_is_let_in_and_the_oldest_of_the_largest_crowd_goes() -> None:
    crowds = Crowds(SHARES)
    probe = enter(crowds, 1, "192.0.2.9")[0]
    flood = enter(crowds, 4300)
    assert not probe.is_dropped
    assert [each.is_dropped for each in flood] == [True] * (4300 - 29) + [False] * 29
    assert len(crowds) == 30


def test_a_stranger_that_is_being_answered_goes_last() -> None:
    crowds = Crowds(SHARES)
    busy = enter(crowds, 1, is_idle=False)[0]
    enter(crowds, 100)
    assert not busy.is_dropped
    everybody = [busy, *enter(crowds, 100, is_idle=False)]
    assert sum(not each.is_dropped for each in everybody) == 30


def test_a_flood_of_strangers_takes_nothing_from_those_who_are_known() -> None:
    crowds = Crowds(SHARES)
    known = enter(crowds, 20)
    assert all(crowds.recognise(each, "viewer", is_administrator=False) for each in known)
    enter(crowds, 4300)
    assert not any(each.is_dropped for each in known)


def test_one_user_cannot_take_what_is_left_for_another_nor_all_users_what_is_the_administrators() -> None:
    crowds = Crowds(SHARES)
    assert recognise(crowds, 100, "viewer").count(True) == 90
    assert recognise(crowds, 100, "evictor").count(True) == 30
    assert recognise(crowds, 20, "admin").count(True) == 10
    assert recognise(crowds, 1, "another").count(True) == 0


def test_idle_connections_of_a_user_make_room_for_its_own() -> None:
    crowds = Crowds(SHARES)
    assert recognise(crowds, 200, "viewer", is_idle=True).count(True) == 200
    assert recognise(crowds, 30, "evictor").count(True) == 30


def test_a_connection_that_has_left_is_forgotten() -> None:
    crowds = Crowds(SHARES)
    for each in (*enter(crowds, 30), *enter(crowds, 3, "192.0.2.2")):
        crowds.recognise(each, "viewer", is_administrator=False)
        crowds.leave(each)
        crowds.leave(each)
    assert len(crowds) == 0
    assert recognise(crowds, 90, "viewer").count(True) == 90


def test_a_second_token_on_the_same_connection_moves_it() -> None:
    crowds = Crowds(SHARES)
    (connection,) = enter(crowds, 1)
    for user in ("viewer", "evictor", "evictor", "viewer"):
        assert crowds.recognise(connection, user, is_administrator=False)
    assert len(crowds) == 1
    assert recognise(crowds, 89, "viewer").count(True) == 89


@pytest.mark.parametrize(
    ("files", "connections"), [(1024, 768), (4096, 3072), (20_000, MOST_CONNECTIONS), (65_536, MOST_CONNECTIONS)]
)
def test_files_are_left_for_the_store(files: int, connections: int) -> None:
    shares = shares_within(files)
    assert shares.all == connections
    assert shares.one_user < shares.users < shares.all - shares.strangers < files - 128
