"""One batch: answers to several analysts, held by all servers, and joined by nobody else."""

import threading
from pathlib import Path

import numpy as np
import pytest

from hedgerow.errors import Code
from hedgerow.net.tls import TLSNetwork
from hedgerow.parties.consortium.state_key import operator_key
from hedgerow.parties.queries.answer_run import ChargedQueries, answer_batch
from hedgerow.parties.queries.waiting import Pending
from hedgerow.parties.store.library import Library
from hedgerow.parties.store.query_log import Asked, QueryKey
from hedgerow.privacy import Leakage, Ledger
from hedgerow.protocols.hidden import questions
from hedgerow.protocols.hidden.answers import HIDDEN_TREE
from hedgerow.protocols.hidden.options import plan_hidden
from hedgerow.protocols.hidden.questions import DealtQuestion, openings_of
from hedgerow.protocols.sharing.queries import query_planes
from hedgerow.protocols.votes.budget import answers_release
from hedgerow.secure.replicated.outside import deal, join_halves
from hedgerow.secure.secret import pack
from hedgerow.tables import encode
from hedgerow.trees import grow_id3
from tests.parties.queries.answer_towns import DOMAIN, SERVERS, Town, encoded, table
from tests.parties.wire.parties_calls import refuses


@pytest.mark.parametrize("block", [1, 1 << 22])
def test_queries_of_several_analysts_in_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(questions, "BLOCK", block)
    town = Town(tmp_path, analysts=3)
    plan = town.train("m")
    sizes = (1, 70, 64)
    asked, parts = [], []
    for number, n in enumerate(sizes):
        planes = query_planes(plan.layout, encode(table(n, seed=number)[0], DOMAIN))
        asked.append(Asked(QueryKey(f"ann{number}", "0" * 32), "class", n, ""))
        parts.append(deal(pack(planes), xor=True))
    found: dict[int, dict[QueryKey, np.ndarray]] = {}

    def serve(server: int) -> None:
        config = town.configs[SERVERS[server]]
        library = Library(config.state, operator_key(config.folder), server)
        queries = [
            Pending(one, "m", dealt[server], (b"", b""), 0)
            for one, dealt in zip(asked, parts, strict=True)
        ]
        with TLSNetwork(
            server, config.server_endpoints, config.identity, session=bytes(16), program=b"test"
        ) as network:
            book, shares = library.book("m"), library.shares("m")
            book.charge(asked)
            found[server] = answer_batch(network, book, shares, queries, "class", "d" * 32)
            # All of it is on the disk, for whoever comes back for it.
            logged = book.log.find([one.key for one in asked]).values()
            assert {(one.state, one.draw) for one in logged} == {("held", "d" * 32)}
            book.log.finish([one.key for one in asked])
            for one in asked:
                half = book.log.half(one.key)
                assert (half is None) == (server == 2)
                assert half is None or np.array_equal(half, found[server][one.key])
        library.close()

    threads = [threading.Thread(target=serve, args=(server,)) for server in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[2] == {}
    tree = grow_id3(encoded(), criterion="max", max_depth=3)
    for number, one in enumerate(asked):
        rows = encode(table(one.n, seed=number)[0], DOMAIN)
        first, second = found[0][one.key], found[1][one.key]
        np.testing.assert_array_equal(join_halves(first, second), tree.predict_class(rows.bins))


def test_a_charge_pays_for_one_answer() -> None:
    ledger = Ledger()
    ledger.reserve(answers_release(0.1, 2, 5))
    reason = ledger.releases[0].reason
    charged = ChargedQueries(ledger, 1)
    assert charged.charged(reason, "analyst ann") == 5
    refuses(Code.NOT_CHARGED, lambda: charged.take(reason, "server 0", own=True, overall=True))
    charged.take(reason, "analyst ann", own=True, overall=True)
    refuses(Code.NOT_CHARGED, lambda: charged.take(reason, "analyst ann", own=True, overall=True))
    refuses(
        Code.NOT_CHARGED,
        lambda: ChargedQueries(Ledger(), 1).take(reason, "analyst", own=1, overall=1),
    )


@pytest.mark.parametrize("noise", ["none", "votes", "splits+leaves"])
def test_charges_to_all_analysts_cover_each_and_nobody_else(noise: str) -> None:
    votes = {"n_trees": 3, "queries": 9} if noise == "votes" else {}
    plan = plan_hidden(DOMAIN, noise=noise, depth=2, epsilon=1.0, **votes)
    ledger = Ledger(domain=plan.domain)
    plan.charge(ledger)
    (opening,) = openings_of(HIDDEN_TREE, plan, [DealtQuestion(4, {}, "analyst ann0")], "class")
    assert opening.audience == "analyst ann0"
    leakage = Leakage([opening], ledger=ChargedQueries(ledger, 1))
    refuses(Code.WRONG_AUDIENCE, lambda: leakage.check(opening.name, "analyst bob", (4,)))
    refuses(Code.WRONG_OPENING_SHAPE, lambda: leakage.check(opening.name, "analyst ann0", (5,)))
    leakage.check(opening.name, "analyst ann0", (4,))
    refuses(Code.TOO_MANY_OPENINGS, lambda: leakage.check(opening.name, "analyst ann0", (4,)))
    unpaid = Leakage([opening], ledger=ChargedQueries(Ledger(), 1))
    refuses(Code.NOT_CHARGED, lambda: unpaid.check(opening.name, "analyst ann0", (4,)))
