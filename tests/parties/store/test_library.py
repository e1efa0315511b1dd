"""Models of a server: opened once, budgets as the store has them."""

from pathlib import Path

import pytest

from hedgerow.errors import Code
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.consortium.state_key import operator_key
from hedgerow.parties.store.library import MOST_ENTRIES, Library
from hedgerow.parties.store.models import write_model
from hedgerow.parties.store.query_log import Asked, QueryKey
from hedgerow.protocols.votes import votes
from tests.parties.queries.answer_towns import SERVERS, Town
from tests.parties.wire.parties_calls import refuses


def library_of(town: Town, server: int = 0, **options) -> Library:
    config = town.configs[SERVERS[server]]
    return Library(config.state, operator_key(config.folder), server, **options)


def asked(n: int, analyst: str = "ann0", id_: int = 0) -> Asked:
    return Asked(QueryKey(analyst, f"{id_:032x}"), "class", n, "d")


@pytest.fixture
def town(tmp_path: Path) -> Town:
    return Town(tmp_path, analysts=2)


def test_votes_are_spent_once_and_remembered(town: Town) -> None:
    town.train("m", noise="votes", n_trees=3, epsilon=5.0, queries=10)
    library, policy = library_of(town), town.policies[0]
    book = library.book("m")
    assert library.book("m") is book
    assert book.left(policy, "ann0") == 10
    book.charge([asked(4), asked(3, "ann1")])
    book.charge([asked(4)])
    for _ in range(2):
        assert votes.answers_left(book.ledger) == 3
        assert book.left(policy, "ann0") == 3
        book.admit(policy, asked(3, id_=2), before={})
        error = refuses(
            Code.BUDGET_EXCEEDED, lambda b=book: b.admit(policy, asked(4, id_=2), before={})
        )
        assert "3 left" in error.found
        refuses(
            Code.BUDGET_EXCEEDED,
            lambda b=book: b.admit(policy, asked(1, id_=2), before={"ann1": 3}),
        )
        library.close()
        library = library_of(town)
        book = library.book("m")
    library.close()


def test_policies_count_rows(town: Town) -> None:
    town.train("m")
    library = library_of(town)
    policy: Policy = town.policies[0].model_copy(
        update={"queries_per_analyst": 5, "queries_per_model": 8}
    )
    book = library.book("m")
    book.charge([asked(4)])
    assert (book.left(policy, "ann0"), book.left(policy, "ann1")) == (1, 4)
    book.admit(policy, asked(1, id_=1), before={})
    for bad, before in ((asked(2, id_=1), {}), (asked(1, id_=1), {"ann0": 1})):
        refuses(Code.POLICY_REFUSES, lambda a=bad, w=before: book.admit(policy, a, before=w))
    refuses(Code.POLICY_REFUSES, lambda: book.admit(policy, asked(3, "ann1"), before={"ann0": 2}))
    library.close()


def test_who_may_ask_what(town: Town) -> None:
    town.train("m", analysts=["ann0", "odd-"])
    town.train("votes", noise="votes", n_trees=3, epsilon=1.0, queries=5)
    town.train("counts", noise="splits+leaves", epsilon=1.0)
    library = library_of(town)
    book = library.book("m")
    book.check_asker("ann0", "class")
    refuses(Code.CALLER_NOT_ALLOWED, lambda: book.check_asker("ann1", "class"))
    refuses(Code.BAD_PARAMETER, lambda: book.check_asker("ann0", "distribution"))
    # The ledger could not name it.
    refuses(Code.BAD_RELEASE, lambda: book.check_asker("odd-", "class"))
    library.book("votes").check_asker("ann0", "class")
    refuses(Code.BAD_PARAMETER, lambda: library.book("votes").check_asker("ann0", "distribution"))
    library.book("counts").check_asker("ann0", "distribution")
    library.close()


def test_models_that_cannot_be_asked(town: Town) -> None:
    library = library_of(town)
    refuses(Code.BAD_NAME, lambda: library.book("../m"))
    refuses(Code.UNKNOWN_MODEL, lambda: library.book("unknown"))
    town.train("m")
    config = town.configs[SERVERS[0]]
    manifest = library.manifest("m")
    opened = type(manifest)(
        **{**vars(manifest), "name": "opened", "protocol": "open-tree", "job": "f" * 64}
    )
    key = operator_key(config.folder)
    write_model(config.state, key, opened, {}, ledger="{}", leakage="{}", tree={})
    refuses(Code.BAD_PARAMETER, lambda: library.book("opened"))


def test_shares_in_memory_are_bounded(town: Town) -> None:
    for name in ("a", "b", "c"):
        town.train(name)
    library = library_of(town, octets=1)
    for name in ("a", "b", "c", "a"):
        assert set(library.shares(name)) == {"splits", "values"}
        assert len(library._shares) == 1
    library.close()


def test_the_ledger_in_memory_stays_short(town: Town) -> None:
    town.train("m", noise="votes", n_trees=3, epsilon=5.0, queries=1000)
    library = library_of(town)
    book = library.book("m")
    short = len(book.ledger.entries)
    for k in range(150):
        book.charge([asked(1 + k % 2, id_=k)])
        assert votes.answers_left(book.ledger) == 1000 - book.log.rows
        assert len(book.ledger.entries) <= short + MOST_ENTRIES
    assert book.log.rows == 225
    refuses(Code.BUDGET_EXCEEDED, lambda: book.charge([asked(776, id_=999)]))
    library.close()
