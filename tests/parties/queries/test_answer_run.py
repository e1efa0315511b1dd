"""One run: blocks of rows, charges that pay once, halves that only join together."""

import threading
from pathlib import Path

import numpy as np
import pytest

from hedgerow.errors import Code
from hedgerow.net.simulator import Simulator
from hedgerow.net.tls import TLSNetwork
from hedgerow.parties.consortium.state_key import operator_key
from hedgerow.parties.queries import answer_run
from hedgerow.parties.queries.answer_run import AnswerRun, ChargedQueries, block_rows
from hedgerow.parties.queries.waiting import Pending
from hedgerow.parties.store.library import Library
from hedgerow.parties.store.query_log import Asked, QueryKey
from hedgerow.privacy import Leakage, Ledger
from hedgerow.protocols.hidden.kind import stored_forest
from hedgerow.protocols.hidden.options import plan_hidden
from hedgerow.protocols.sharing.queries import query_planes
from hedgerow.protocols.votes.budget import answers_release
from hedgerow.secure.replicated import ReplicatedEngine
from hedgerow.secure.replicated.outside import deal, join_halves
from hedgerow.secure.secret import WORD, pack
from hedgerow.tables import encode
from hedgerow.trees import grow_id3
from tests.parties.queries.answer_towns import DOMAIN, SERVERS, Town, encoded, table
from tests.parties.wire.parties_calls import refuses


@pytest.mark.parametrize("block", [1, 1 << 22])
def test_queries_of_several_analysts_in_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(answer_run, "BLOCK", block)
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
            server, config.roster("run"), config.identity, session=bytes(16), program=b"test"
        ) as network:
            run = AnswerRun(network, library.book("m"), library.shares("m"), "draw")
            found[server] = run.answer(queries, "class")
            run.finish()
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
def test_charges_to_all_analysts_cover_each_and_nobody_else(tmp_path: Path, noise: str) -> None:
    town = Town(tmp_path)
    votes = {"n_trees": 3, "queries": 9} if noise == "votes" else {}
    town.train("m", noise=noise, epsilon=1.0, **votes)
    config = town.configs[SERVERS[0]]
    library = Library(config.state, operator_key(config.folder), 0)
    book = library.book("m")
    run = AnswerRun(None, book, {}, "draw")  # type: ignore[arg-type]
    query = Pending(Asked(QueryKey("ann0", "0" * 32), "class", 4, ""), "m", None, (b"", b""), 0)
    opening = run._opening(7, query, "class")
    assert opening.audience == "analyst ann0"
    leakage = Leakage([opening], ledger=ChargedQueries(book.ledger, 1))
    refuses(Code.WRONG_AUDIENCE, lambda: leakage.check(opening.name, "analyst bob", (4,)))
    refuses(Code.WRONG_OPENING_SHAPE, lambda: leakage.check(opening.name, "analyst ann0", (5,)))
    leakage.check(opening.name, "analyst ann0", (4,))
    refuses(Code.TOO_MANY_OPENINGS, lambda: leakage.check(opening.name, "analyst ann0", (4,)))
    unpaid = Leakage([opening], ledger=ChargedQueries(Ledger(), 1))
    refuses(Code.NOT_CHARGED, lambda: unpaid.check(opening.name, "analyst ann0", (4,)))
    library.close()


@pytest.mark.parametrize("branching", ["binary", "wary"])
@pytest.mark.parametrize("depth", [1, 4])
def test_blocks_are_whole_words_and_bounded(branching: str, depth: int) -> None:
    plan = plan_hidden(DOMAIN, noise="none", depth=depth, branching=branching, n_trees=3)
    engine = ReplicatedEngine(Simulator(3), Leakage([]), insecure_seed=b"blocks")
    layout = plan.layout
    inner = sum(layout.n_nodes(level) for level in range(depth))
    splits = np.zeros((3, 2, 3, inner, len(layout.candidates)), np.uint16)
    values = np.zeros((3, 2, 3, layout.n_nodes(depth), 3), np.uint16)
    model = stored_forest(engine, plan, {"splits": splits, "values": values})
    rows = block_rows(model)
    assert rows % WORD == 0
    assert WORD <= rows <= answer_run.MOST_ROWS
