"""Paper 003's table 1 beside ours, what training costs, and the ratios that it prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from reproduce.paper_003.findings import is_number, learned, rows
from reproduce.paper_003.models import MODELS
from reproduce.paper_003.published import TABLE_1
from reproduce.paper_003.study import Record
from reproduce.report import number, table

COSTS = {
    "ours": "seconds",
    "processor": "processor seconds, all peers",
    "offline_processor": "of these offline",
    "offline_mb": "MB offline",
    "online_mb": "MB online",
    "rounds": "rounds",
    "online_rounds": "rounds online",
}


def tables(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Return all tables."""
    return [_table_1(records), _among_peers(records), _costs(records), _ratios(records)]


def _table_1(records: Sequence[Record]) -> dict[str, Any]:
    found: dict[str, dict[str, Record]] = {}
    for one in learned(records):
        found.setdefault(one["table"], {})[one["model"]] = one
    models = [model for model in MODELS if any(model in ones for ones in found.values())]
    lines = []
    for name, ones in found.items():
        any_of = next(iter(ones.values()))
        cells = [f"{name}, {'squared error' if is_number(any_of) else 'accuracy'}"]
        for model in models:
            paper = TABLE_1.get((name, model), ("", ""))
            for ours, printed in zip(("ours", "sklearn"), paper, strict=True):
                cells.append(_mean(ones[model], ours, printed) if model in ones else "")
                if model in ones and ours == "ours":
                    cells[-1] += f", {_splits(ones[model])}"
        lines.append([*cells, _mean(any_of, "constant", "")])
    head = [text for model in models for text in (MODELS[model], "scikit-learn")]
    return table(
        "Table 1: trained among peers, and scikit-learn with the same parameters",
        ("", *head, "a constant"),
        lines,
        "What models answer that were trained among three peers, as large as scikit-learn's; means "
        "of the splits, which scikit-learn has too, in brackets the paper's. Constants are of the "
        "splits of the tree. Appliances in Wh²; rv2 is the same table with its last column, random "
        "numbers from 0 to 50, as the target.",
    )


def _mean(one: Record, key: str, printed: float | str) -> str:
    mean = float(np.mean(one[key]))
    digits = 2 if is_number(one) else 4
    paper = f" ({printed:.{digits}f})" if isinstance(printed, float) else ""
    return f"{mean:,.{digits if mean < 1_000 else 0}f}{paper}"


def _splits(one: Record) -> str:
    found = one["peers"]["splits"]
    return f"{found} split{'s' * (found > 1)}"


def _among_peers(records: Sequence[Record]) -> dict[str, Any]:
    return table(
        "Trained among three peers: how many answers are those of the learner in the clear",
        ("", "model", "same answers", "answers", "trees", "splits"),
        [
            [one["table"], MODELS[one["model"]], *(f"{one['peers'][key]:,}" for key in KEYS)]
            for one in learned(records)
        ],
        "Trees and forests: CART on the rows that the public coins draw. Boosting: scikit-learn.",
    )


KEYS = ("same", "answers", "trees", "splits")


def _costs(records: Sequence[Record]) -> dict[str, Any]:
    mine = [one for one in rows(records) if "processor" in one]
    return table(
        "What training a tree costs",
        ("", *COSTS.values()),
        [
            [one["case"].removesuffix(": seconds"), *(number(one[key], 3) for key in COSTS)]
            for one in mine
        ],
        "With everything that could be made ahead, on one machine; the paper shows online "
        "seconds of machines of their own.",
    )


def _ratios(records: Sequence[Record]) -> dict[str, Any]:
    return table(
        "How many times faster than everything on shares, at most (section 7.3.3)",
        ("", "processor time, ours", "at", "the paper, online time"),
        [
            [one["case"].partition(": ")[0], number(one["ours"], 3), one["at"], f"{one['paper']:g}"]
            for one in rows(records)
            if "at" in one
        ],
    )
