"""What peers make ahead for a run that waits: kept by all, used once, by its first attempt."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.network import Network
from hedgerow.parties.store.database import open_store
from hedgerow.parties.store.durable import StateFolder
from hedgerow.parties.store.meters import read_meter, sums_of
from hedgerow.parties.vertical.prepared import MOST_TIMES, PreparedStock
from hedgerow.secure.additive.transfers import PREPROCESSING
from tests.net.net_parties import Club
from tests.parties.towns import json_of, set_line
from tests.parties.vertical.peer_towns import PEERS, PeerTown, make_job

KEY, RUN = bytes(32), "tennis-0123456789ab"
SESSION, OTHER = b"s" * 16, b"o" * 16


def stock_of(place: int) -> dict[str, np.ndarray]:
    return {"and/0": np.arange(3, dtype=np.uint64) + place}


class Stores:
    """Three peers, their states, and a network of theirs whenever they take a stock."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.clubs = folder, 0
        self.states = []
        for place in range(3):
            root = folder / str(place)
            root.mkdir(mode=0o700)
            self.states.append(StateFolder(root))

    def keep(self, place: int, session: bytes = SESSION) -> None:
        PreparedStock(self.states[place], RUN).keep(session, stock_of(place), KEY)

    def taken(self) -> list[Any]:
        """Return what each peer has taken."""
        club = self.folder / f"club {self.clubs}"
        self.clubs += 1
        club.mkdir()

        def take(network: Network) -> Any:
            (me,) = network.local
            return PreparedStock(self.states[me], RUN).take(network, KEY)

        return Club(club).run(take)

    def files(self) -> int:
        return sum(len([*state.root.rglob("*.bin")]) for state in self.states)


@pytest.fixture
def stores(tmp_path: Path) -> Stores:
    return Stores(tmp_path)


def test_what_all_have_is_taken_once(stores: Stores) -> None:
    for place in range(3):
        stores.keep(place)
    assert stores.files() == 3
    for place, found in enumerate(stores.taken()):
        assert np.array_equal(found["and/0"], stock_of(place)["and/0"])
    assert stores.files() == 0
    assert stores.taken() == [None] * 3


@pytest.mark.parametrize("odd", [None, OTHER], ids=["one has none", "one has another"])
def test_what_not_all_have_is_given_up_for_good(stores: Stores, odd: bytes | None) -> None:
    for place in range(2):
        stores.keep(place)
    if odd is not None:
        stores.keep(2, odd)
    assert stores.taken() == [None] * 3
    assert stores.files() == 0
    # Not if the others should have it later on, either.
    stores.keep(2)
    assert stores.taken() == [None] * 3


def test_it_is_gone_on_the_disk_before_it_is_read(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A peer that dies as it reads has used its stock up, and so have the others."""
    for place in range(3):
        stores.keep(place)

    def die(*_: Any, **__: Any) -> None:
        raise Code.BAD_FRAME.error(found="the end of the process")

    with monkeypatch.context() as patch:
        patch.setattr("hedgerow.parties.vertical.prepared.read_arrays", die)
        assert all(isinstance(end, HedgerowError) for end in stores.taken())
    assert stores.taken() == [None] * 3
    for state in stores.states:
        with open_store(state).snapshot() as made:
            assert [entry.kind for entry in made.trail()] == ["prepared", "took"]


def test_the_last_of_several_counts(stores: Stores) -> None:
    for session in (OTHER, SESSION):
        for place in range(3):
            stores.keep(place, session)
    assert stores.files() == 3
    assert all(found is not None for found in stores.taken())


def test_preparations_that_fail_are_counted(stores: Stores) -> None:
    stock = PreparedStock(stores.states[0], RUN)
    for _ in range(MOST_TIMES):
        stock.count()
    with pytest.raises(HedgerowError) as caught:
        stock.count()
    assert caught.value.code is Code.WRONG_RUN_STATE


def test_a_run_that_waits_for_an_approval_is_prepared(tmp_path: Path) -> None:
    town = PeerTown(tmp_path)
    set_line(town.parties["heron"].folder / "policy.toml", "approvers", '["ann"]')
    try:
        town.start()
        sent = {}
        for name in ("plain", "ahead"):
            job = make_job(name=name, model=name)
            run = town.post(job, "wren")
            if name == "ahead":
                told = json_of(town.command("rook", "runs", "prepare", run, "--format", "json"))
                assert told["sent"] > told["kept"] > 0
                assert town.states(run, *PEERS) == dict.fromkeys(PEERS, "accepted")
                # It is on the disk.
                town.kill("wren")
                town.start("wren")
            town.command("heron", "runs", "approve", run)
            town.until_state(run, "done")
            town.check_tree(job)
            for fields in town.client("wren").show(run).values():
                assert fields.progress.prepared == (name == "ahead")
            store = open_store(town.parties["rook"].state)
            meter, attempts = read_meter(store, run), sums_of(store, run, "attempts")
            assert meter is not None
            ahead = attempts[0]["payload"] if name == "ahead" else 0
            assert [one["attempt"] for one in attempts] == ([0, 1] if ahead else [1])
            sent[name] = (sum(meter.only(PREPROCESSING).payload), ahead)
            shown = json_of(town.command("rook", "models", "show", name, "--format", "json"))
            assert shown["cost"]["payload"] > shown["cost"]["offline"] >= sent[name][0]
            town.until_closed(run, "rook")
            assert not [*town.parties["rook"].state.path("runs", run).rglob("*.bin")]
            refused = town.command("rook", "runs", "prepare", run)
            assert Code.WRONG_RUN_STATE.number in refused.stderr
        # Nearly all of it was made ahead, and is not made again.
        (plain, _), (every, ahead) = sent["plain"], sent["ahead"]
        assert ahead > 0.9 * plain > 0
        assert every - ahead < 0.1 * plain
    finally:
        town.stop()
