"""Meeting: strangers are turned away, disagreements end it with a number."""

import copy
import os
import socket
import threading
import time

import pytest
from net_parties import Club, all_plans

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.certificates import make_identity
from hedgerow.net.meeting import Member, listen


@pytest.fixture
def club(tmp_path) -> Club:
    return Club(tmp_path)


def codes(ends) -> list[Code | None]:
    return [getattr(end, "code", None) for end in ends]


def meet_apart(clubs: dict[int, Club], timeout: float) -> dict[int, HedgerowError]:
    """Let parties meet that do not share one list; return the errors."""
    ends: dict[int, HedgerowError] = {}

    def party(p: int) -> None:
        try:
            clubs[p].join(p, timeout=timeout)
        except HedgerowError as error:
            ends[p] = error

    threads = [threading.Thread(target=party, args=(p,)) for p in clubs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return ends


def test_noise_at_the_door_changes_nothing(club: Club) -> None:
    stop = threading.Event()

    def shout() -> None:
        while not stop.is_set():
            for member in club.roster:
                try:
                    with socket.create_connection((member.host, member.port), 1) as caller:
                        caller.send(os.urandom(200))
                except OSError:
                    continue

    def program(network) -> bool:
        all_plans(network)
        return True

    # One that says nothing at all, and one that shouts until the end.
    silent = socket.create_connection((club.roster[0].host, club.roster[0].port))
    shouting = threading.Thread(target=shout)
    shouting.start()
    time.sleep(0.2)
    try:
        assert club.run(program) == [True] * 3
    finally:
        stop.set()
        shouting.join()
        silent.close()


def test_a_stranger_with_its_own_certificate_is_turned_away(club: Club, tmp_path) -> None:
    own = make_identity(tmp_path, "stranger")
    stranger = copy.copy(club)
    stranger.roster = [*club.roster[:2], Member("127.0.0.1", 1, own.pem)]
    stranger.identities = [*club.identities[:2], own]
    ends = meet_apart({0: club, 2: stranger}, timeout=1.0)
    assert ends[2].code in {Code.PEER_GONE, Code.PEER_TIMEOUT}
    assert ends[0].code is Code.PEER_TIMEOUT
    assert "party 1, party 2 in step 'meeting'" in str(ends[0])
    assert "strangers" in str(ends[0])


def test_the_called_party_must_have_its_own_certificate(club: Club) -> None:
    # In the list of party 2 the addresses of 0 and 1 are exchanged.
    first, second, third = club.roster
    confused = copy.copy(club)
    confused.roster = [
        Member(second.host, second.port, first.certificate),
        Member(first.host, first.port, second.certificate),
        third,
    ]
    ends = meet_apart({0: club, 1: club, 2: confused}, timeout=2.0)
    assert ends[2].code is Code.UNKNOWN_PEER
    assert "step 'meeting'" in str(ends[2])
    assert set(ends) == {0, 1, 2}


@pytest.mark.parametrize("change", [{"program": b"other"}, {"session": b"s" * 16}])
def test_disagreement_about_program_or_session(club: Club, change: dict) -> None:
    ends = codes(club.run(lambda network: None, {1: change}, timeout=2.0))
    assert Code.SESSION_MISMATCH in ends
    assert None not in ends


def test_a_missing_party_is_named(club: Club) -> None:
    with pytest.raises(HedgerowError) as caught:
        club.join(0, timeout=0.2)
    assert caught.value.code is Code.PEER_TIMEOUT
    assert "party 1, party 2 in step 'meeting'" in str(caught.value)


def test_a_taken_address() -> None:
    with listen("127.0.0.1", 0) as first, pytest.raises(HedgerowError) as caught:
        listen("127.0.0.1", first.getsockname()[1])
    assert caught.value.code is Code.CANNOT_LISTEN


def test_own_certificate_must_be_in_the_list(club: Club) -> None:
    club.identities.reverse()
    with pytest.raises(HedgerowError) as caught:
        club.join(0)
    assert caught.value.code is Code.BAD_KEY_FILE
