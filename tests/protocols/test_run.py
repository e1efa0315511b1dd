"""Engines: the same answers and the same bytes, and a record of all that was learned."""

import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError, PrivacyError
from hedgerow.net.launch import run_parties
from hedgerow.net.meter import Reading
from hedgerow.net.simulator import Simulator
from hedgerow.privacy import Leakage
from hedgerow.protocols import run
from hedgerow.protocols.hidden.answers import CLASS
from hedgerow.protocols.run import ask, check_alike, train
from hedgerow.protocols.votes.votes import answers_left
from tests.protocols.hidden.hidden_jobs import encoded, owners, plan

TABLE = encoded()
SERVERS = (0, 1, 2)


def per_server(reading: Reading) -> dict:
    return {
        (step, party): (t.rounds, t.payload, t.wire)
        for (step, party), t in reading.traffic.items()
        if party in SERVERS
    }


def test_three_engines_give_the_same_answers_and_two_the_same_bytes(monkeypatch) -> None:
    ends: list = []

    def noted(*args, **kwargs):
        ends.append((kwargs["own"], found := run_parties(*args, **kwargs)))
        return found

    monkeypatch.setattr(run, "run_parties", noted)
    of = plan()
    made = owners(of, TABLE, 2, "vertical")
    models = {
        name: train("hidden-tree", of, made, name, seed=5)
        for name in ("clear", "simulate", "processes")
    }
    # Keys follow from the seed, so that even shares are the same.
    apart, there = (models[name][0].servers for name in ("simulate", "processes"))
    for one, other in zip(apart, there, strict=True):
        assert one.shares.keys() == other.shares.keys()
        for name, array in one.shares.items():
            np.testing.assert_array_equal(array, other.shares[name])
    answers = {name: ask(model, of, TABLE.bins)[0] for name, (model, _) in models.items()}
    np.testing.assert_array_equal(answers["clear"], answers["simulate"])
    np.testing.assert_array_equal(answers["clear"], answers["processes"])
    assert (answers["clear"] == TABLE.target).mean() > 0.7
    simulated, real = (models[name][1].meter for name in ("simulate", "processes"))
    assert per_server(simulated) == per_server(real)
    assert simulated.payload == real.payload
    assert simulated.wire == real.wire
    assert models["clear"][1].meter.rounds == 0
    assert len({models[name][0].servers[0].ledger for name in models}) == 1

    (train_own, trained), (ask_own, asked) = ends
    # A server is handed what was dealt to it, of which it cannot make anything, and nothing else.
    for handed in (train_own, ask_own):
        assert [list(handed[server][0]) for server in SERVERS] == [["0"], ["1"], ["2"]]
    for server in SERVERS:
        parts = train_own[server][0][str(server)]["parts"]
        assert [sorted(part["seeds"]) for part in parts] == [[["0", "1"], ["1"], ["0"]][server]] * 2
        assert [part["rest"] is None for part in parts] == [server == 0] * 2
    assert [sorted(end.value) for end in trained] == [["0"], ["1"], ["2"]]
    assert len({end.value[str(i)]["ledger"] for i, end in enumerate(trained)}) == 1
    assert [list(end.value) for end in asked] == [["0"], ["1"], ["2"]]
    # Two of them give a half of the answers each.
    assert [end.value[str(i)]["half"] is None for i, end in enumerate(asked)] == [
        *[False] * 2,
        True,
    ]


def test_a_seed_repeats_a_training_down_to_its_shares() -> None:
    of = plan(noise="splits+leaves", epsilon=2.0)
    made = owners(of, TABLE)
    first, second = (train("hidden-tree", of, made, seed=7)[0] for _ in range(2))
    for name, array in first.servers[0].shares.items():
        np.testing.assert_array_equal(array, second.servers[0].shares[name])
    assert "seeded noise" in first.ledger.total("server 0").why


class Transcript(Simulator):
    """Writes down every exchange: step, and who sends how much of what to whom."""

    seen: list = []

    def _move(self, step, plan, outbox):
        self.seen.append((step, tuple(plan)))
        return super()._move(step, plan, outbox)


@pytest.mark.parametrize("grower", ["masks", "grouped"])
@pytest.mark.parametrize("noise", ["none", "leaves", "splits+leaves"])
def test_messages_tell_nothing_about_the_table(noise: str, grower: str, monkeypatch) -> None:
    of = plan(noise=noise, grower=grower, epsilon=2.0)
    monkeypatch.setattr(run, "Simulator", Transcript)
    transcripts = []
    for table in (TABLE, encoded(5, seed=3)):
        monkeypatch.setattr(Transcript, "seen", [])
        model, _ = train("hidden-tree", of, owners(of, table))
        ask(model, of, table.bins[:4])
        transcripts.append(Transcript.seen)
    assert transcripts[0] == transcripts[1]
    assert len(transcripts[0]) > 50


def test_both_growers_and_all_owners_agree() -> None:
    found = []
    for grower in ("masks", "grouped"):
        for count, partition in ((1, "horizontal"), (4, "horizontal"), (3, "vertical")):
            of = plan(grower=grower)
            model, _ = train("hidden-tree", of, owners(of, TABLE, count, partition))
            found.append(ask(model, of, TABLE.bins)[0])
    assert all((answers == found[0]).all() for answers in found)


@pytest.mark.parametrize("noise", ["none", "leaves", "splits+leaves"])
def test_answers_are_recorded_and_cost_nothing_more(noise: str) -> None:
    of = plan(noise=noise, epsilon=2.0)
    model, _ = train("hidden-tree", of, owners(of, TABLE))
    before = model.ledger.total("analyst")
    answers, record = ask(model, of, TABLE.bins[:9])
    assert answers.shape == (9,)
    assert model.ledger.total("analyst") == before
    assert [row["equal"] for row in record.leakage.compare()] == [True]
    (seen,) = record.leakage.what_was_learned("analyst")
    assert (seen["name"], seen["times"], seen["values"]) == (CLASS, 1, 9)
    assert record.leakage.what_was_learned("server") == []
    assert before.epsilon == (pytest.approx(2.0) if noise == "splits+leaves" else math.inf)
    assert model.ledger.claimed_total("analyst") == (2.0 if noise == "leaves" else None)
    assert all(model.ledger.total(f"server {i}").epsilon == 0 for i in SERVERS)


def test_a_model_says_nothing_when_printed() -> None:
    of = plan()
    model, _ = train("hidden-tree", of, owners(of, TABLE))
    assert "array" not in repr(model)
    assert "array" not in repr(model.servers[0])


def test_parties_that_charged_differently_are_found_out() -> None:
    alike, other = ({"ledger": text, "leakage": "same"} for text in ("one", "two"))
    check_alike([alike, alike])
    with pytest.raises(HedgerowError) as caught:
        check_alike([alike, alike, other])
    assert caught.value.code is Code.BAD_LEDGER_FILE


def test_the_servers_count_answers_in_ledgers_of_their_own(monkeypatch) -> None:
    of = plan(noise="votes", epsilon=2.0, n_trees=3, queries=10)
    model, _ = train("hidden-tree", of, owners(of, TABLE))
    ask(model, of, TABLE.bins[:4])
    assert answers_left(model.ledger) == 6
    # A run that fails counts as answered, wherever it failed.
    with monkeypatch.context() as patch:
        patch.setattr(run, "check_alike", lambda parties: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            ask(model, of, TABLE.bins[:4])
    assert answers_left(model.ledger) == 2
    with pytest.raises(HedgerowError) as caught:
        ask(model, of, TABLE.bins[:3])
    assert caught.value.code is Code.BUDGET_EXCEEDED
    copy = pickle.loads(pickle.dumps(model))
    assert answers_left(copy.ledger) == 2
    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(lambda _: _counted(model, of), range(4)))
    assert sum(outcomes) == 2
    assert answers_left(model.ledger) == 0


def _counted(model, of) -> int:
    with suppress(PrivacyError):
        return len(ask(model, of, TABLE.bins[:1])[0])
    return 0


def test_a_run_is_shown_in_a_line() -> None:
    shown = repr(run.Run("train", Leakage([]), Reading([0], {}), 1.25))
    assert shown.startswith("<Run 'train' of 1.250 s: <Leakage: 0 names, ")
    assert "<Reading of 1 party: 0 rounds" in shown
