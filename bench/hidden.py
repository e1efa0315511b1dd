"""Hidden trees on three servers: three TLS processes on loopback.

Cases: (a) heart, w-ary, depth 3, beside the same protocol with MPyC, three parties on loopback,
once in the paper's form and once written for speed; (b) adult, w-ary, depths 4 and 5; (c) 32,768
rows, 11 numeric attributes in 32 bins, binary, depths 5, 10 and 14; (d) growth with rows (10^4 to
2^20 at depth 4) and with depth (2 to 5 at 10^5 rows) of such tables; (e) 1,000 predictions in a
batch, from the analyst's dealt bits to the halves of its answers.

Nothing has noise, as in the other systems. A row is from the shared table to the shared tree; what
it takes to make that table of uploaded bits, `table_s`, is a figure apart. All of it is warm:
before the clock starts, every server has run every primitive on a few numbers of every ring, which
loads the compiled kernels, and where a table has up to 10,000 rows three trees are trained, of
which the last two count. Owner and analyst deal before the clock starts. MPyC warms up too; its
parties talk without TLS. Bytes are what one server sends, payload, as a mean over the servers.
`same_as_clear` is the share of the queries that are answered as the tree grown in the clear would;
MPyC's trees are compared with one grown in the clear as a whole. `load` and `peer_load` are the
machine's load when a run starts.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import sys
import tempfile
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from bench.environment import run_peer
from bench.harness import row
from bench.hidden_parties import answers_of, asked_of, program, table_of, uploaded
from bench.secure import PEER
from hedgerow.net.launch import run_parties
from hedgerow.privacy import Leakage
from hedgerow.protocols.hidden.options import plan_hidden
from hedgerow.protocols.hidden.plan import HiddenPlan
from hedgerow.protocols.sharing.queries import deal_queries
from hedgerow.protocols.sharing.uploaded import held_table
from hedgerow.secure.clear import ClearEngine
from hedgerow.secure.replicated import SERVERS
from hedgerow.secure.replicated.outside import HALVES, Dealt

QUERIES = 1_000
SMALL = 10_000
HEART_DEPTH = 3
HEART = f"a: heart, w-ary, depth {HEART_DEPTH}"
GROWTH_ROWS = {10_000: "10^4", 100_000: "10^5", 1 << 20: "2^20"}
GROWTH_DEPTHS = (2, 3, 4, 5)

Case = tuple[str, int, str]
CASES: dict[str, Case] = {
    "b: adult, w-ary, depth 4": ("adult", 4, "wary"),
    "b: adult, w-ary, depth 5": ("adult", 5, "wary"),
    **{
        f"c: 32,768 x 11 x 32, binary, depth {depth}": ("synthetic 32768", depth, "binary")
        for depth in (5, 10, 14)
    },
    **{
        f"d: {GROWTH_ROWS[rows]} x 11 x 32, binary, depth {depth}": (
            f"synthetic {rows}",
            depth,
            "binary",
        )
        for rows, depth in [
            *((rows, 4) for rows in GROWTH_ROWS),
            *((100_000, depth) for depth in GROWTH_DEPTHS if depth != 4),
        ]
    },
}
PAPER_FORM = "beside MPyC in the paper's form"
BY_LEVEL = "beside MPyC, level by level"


def run(only: str = "") -> list[dict[str, Any]]:
    """Measure all cases, or those whose name contains `only`."""
    rows = heart_rows() if only in HEART else []
    seconds: dict[Case, float] = {}
    for name, case in CASES.items():
        if only in name:
            figures = measure(case[0], hidden_plan(*case))
            seconds[case] = figures["train_s"]
            rows += case_rows(name, figures)
    return rows + growth_rows(seconds)


def hidden_plan(name: str, depth: int, branching: Any) -> HiddenPlan:
    """Plan a tree without noise, as the other systems train it."""
    table = table_of(name)
    return plan_hidden(
        table.domain, noise="none", depth=depth, branching=branching, capacity=table.n_slots
    )


def measure(name: str, plan: HiddenPlan, queries: int = QUERIES) -> dict[str, Any]:
    """Train and answer over TLS, and return the figures of the slowest server."""
    runs = 3 if plan.n_slots <= SMALL and plan.grower == "masks" else 1
    load = os.getloadavg()[0]
    ends = run_parties(
        program, SERVERS, [name, plan.to_dict(), queries, runs], timeout=600, limit=3_000
    )
    servers = [end.value for end in ends]
    slowest = max(servers, key=lambda server: sum(server["level_s"]) + server["leaves_s"])
    answers = [server["answers"] for server in servers]
    return {
        "train_s": sum(slowest["level_s"]) + slowest["leaves_s"],
        "table_s": max(server["table_s"] for server in servers),
        "level_s": [round(seconds, 4) for seconds in slowest["level_s"]],
        "leaves_s": round(slowest["leaves_s"], 4),
        "rounds": slowest["rounds"],
        "megabytes": statistics.mean(server["bytes"] for server in servers) / 1e6,
        "table_megabytes": statistics.mean(server["table_bytes"] for server in servers) / 1e6,
        "upload_megabytes": sum(_octets(one.parts) for one in uploaded(name, plan)) / 1e6,
        "peak_gib": round(max(end.peak_bytes for end in ends) / 2**30, 3),
        "grower": plan.grower,
        **answers_of(plan, name, {at: answers[at]["half"] for at in HALVES}),
        "load": round(load, 1),
        "answers": {
            "seconds": max(each["seconds"] for each in answers),
            "bytes": statistics.mean(each["bytes"] for each in answers),
            "rounds": answers[0]["rounds"],
            "analyst_bytes": _octets(deal_queries(plan.layout, asked_of(name, queries))),
        },
    }


def _octets(parts: Mapping[int, Dealt] | None) -> int:
    """Return how many bytes of parts whoever deals them sends."""
    each = () if parts is None else parts.values()
    seeds = sum(len(seed) for part in each for seed in part.seeds.values())
    return seeds + sum(0 if part.correction is None else part.correction.nbytes for part in each)


def case_rows(case: str, figures: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the row of a training, and those of its predictions where they are not another's."""
    own = {key: value for key, value in figures.items() if key not in ("train_s", "answers")}
    rows = [row(case, figures["train_s"], **own)]
    # Predictions do not depend on the number of rows, which is all that is new in (d).
    return rows if case.startswith("d") else rows + answer_rows(case, figures["answers"])


def answer_rows(case: str, answers: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of predictions: seconds, and bytes that a server sends."""
    name = f"e: {QUERIES:,} predictions ({case})"
    return [
        row(f"{name}, time", answers["seconds"], rounds=answers["rounds"]),
        row(
            f"{name}, sent by a server",
            answers["bytes"],
            unit="bytes",
            analyst_bytes=answers["analyst_bytes"],
        ),
    ]


def growth_rows(seconds: Mapping[Case, float]) -> list[dict[str, Any]]:
    """Return how the time grows from one size to the next: exponents of rows, ratios of depths."""
    by_rows = {rows: seconds.get((f"synthetic {rows}", 4, "binary")) for rows in GROWTH_ROWS}
    by_depth = {d: seconds.get(("synthetic 100000", d, "binary")) for d in GROWTH_DEPTHS}
    rows = []
    for (few, low), (many, high) in pairwise(by_rows.items()):
        if low and high:
            case = f"d: growth from {GROWTH_ROWS[few]} to {GROWTH_ROWS[many]} rows, depth 4"
            rows.append(row(case, math.log(high / low) / math.log(many / few), unit="exponent"))
    for (few, low), (many, high) in pairwise(by_depth.items()):
        if low and high:
            case = f"d: growth from depth {few} to {many}, 10^5 rows"
            rows.append(row(case, high / low, unit="times"))
    return rows


def heart_rows() -> list[dict[str, Any]]:
    """Run case (a): ours, and both forms of the protocol with MPyC, one after the other."""
    plan = hidden_plan("heart", HEART_DEPTH, "wary")
    figures = measure("heart", plan)
    own = {key: value for key, value in figures.items() if key not in ("train_s", "answers")}
    # The least secure integers that hold the counts are MPyC's fastest; the paper has 32 bits.
    least = plan.n_slots.bit_length() + 1
    forms = [
        (PAPER_FORM, "mpyc_id3_paper.py", 32, 1),
        (BY_LEVEL, "mpyc_id3.py", least, 3),
    ]
    rows = []
    with tempfile.TemporaryDirectory(prefix="hedgerow-") as folder:
        path = Path(folder) / "heart.npz"
        held = uploaded("heart", plan)
        plain = held_table(ClearEngine(Leakage([])), plan.layout, plan.ring, held)
        onehot, columns = (x.data.astype(np.uint8) for x in (plain.onehot, plain.columns))
        np.savez(path, onehot=onehot, columns=columns)
        for form, script, bits, repeats in forms:
            job = {
                "table": str(path),
                "values": plan.layout.width,
                "depth": plan.depth,
                "bits": bits,
                "repeats": repeats,
            }
            load = os.getloadavg()[0]
            peer = run_peer("mpyc", PEER, script, job)
            notes = {
                "peer_megabytes": peer["bytes"] / 1e6,
                "peer_bits": bits,
                "peer_load": round(load, 1),
            }
            rows.append(
                row(f"{HEART}, {form}", figures["train_s"], peer["seconds"], **notes, **own)
            )
    return rows + answer_rows(HEART, figures["answers"])


if __name__ == "__main__":
    print(json.dumps(run(*sys.argv[1:2]), indent=1))
