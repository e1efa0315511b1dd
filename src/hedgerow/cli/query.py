"""``hedgerow query``: ask a model, as an analyst."""

from __future__ import annotations

import csv
import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hedgerow.cli.printing import HERE, DelimiterOption, EncodingOption, FolderArgument

if TYPE_CHECKING:
    from hedgerow.parties.queries.asking import ModelAnswers


class AnswerFormat(StrEnum):
    """How answers are printed."""

    text = "text"
    json = "json"
    csv = "csv"


def query(
    model: Annotated[str, typer.Argument(help="name of the model")],
    rows: Annotated[Path, typer.Argument(help="CSV, Parquet or Arrow file of rows to ask about")],
    folder: FolderArgument = HERE,
    *,
    proba: Annotated[bool, typer.Option("--proba", help="class probabilities as well")] = False,
    timeout: Annotated[float, typer.Option(help="seconds to wait for the servers")] = 120.0,
    delimiter: DelimiterOption = ",",
    encoding: EncodingOption = "utf-8",
    format: Annotated[
        AnswerFormat, typer.Option("--format", help="text for people, json and csv for programs")
    ] = AnswerFormat.text,
) -> None:
    """Ask for the class, or the value, of every row.

    Of a hidden model, the three servers answer, and none sees row or answer. What is published
    answers here, and nobody hears of the rows.
    """
    from hedgerow.errors import Code
    from hedgerow.parties.consortium.config import PartyConfig
    from hedgerow.parties.queries.asking import Analyst, Reader, answer_with_tree
    from hedgerow.tables import TextFormat, encode, read_table

    if not timeout > 0:
        raise Code.BAD_PARAMETER.error(expected="a timeout above 0", found=f"{timeout}")
    config = PartyConfig.load(folder)
    with Console(stderr=True).status(f"asking {escape(model)}") as status:
        known = Reader(config).find_published(model)
        if known is None:
            analyst = Analyst(config, timeout=timeout, waits=lambda why: status.update(escape(why)))
            known = analyst.find(model)
        text = TextFormat(delimiter, encoding)
        asked = read_table(rows, domain=known.plan.domain, text=text)
        if known.tree is not None:
            answers = answer_with_tree(known, encode(asked, known.plan.domain), proba=proba)
        else:
            answers = analyst.ask(known, asked, proba=proba)
    left = None if known.tree is not None else known.left - len(answers)
    _print(answers, model, left, format)


def _print(answers: ModelAnswers, model: str, left: int | None, format: AnswerFormat) -> None:
    records = _records(answers)
    if format is AnswerFormat.json:
        print(json.dumps({"ok": True, "model": model, "left": left, "rows": records}))
        return
    header = list(records[0])
    if format is AnswerFormat.csv:
        writer = csv.DictWriter(sys.stdout, header, lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)
        return
    table = Table(*(escape(name) for name in header))
    for record in records:
        table.add_row(*(escape(_cell(value)) for value in record.values()))
    Console().print(table)
    if left is not None:
        # Others may have asked meanwhile.
        Console(stderr=True).print(f"{max(0, left):,} rows of {model} may still be asked, at most.")


def _records(answers: ModelAnswers) -> list[dict[str, Any]]:
    """Return one record for every row, in order."""
    name = "class" if answers.values is None else "value"
    records = []
    for i, label in enumerate(answers.labels):
        record: dict[str, Any] = {"row": i, name: label}
        if answers.shares is not None:
            shares = answers.shares[i].tolist()
            record |= {f"p({c})": p for c, p in zip(answers.classes, shares, strict=True)}
        records.append(record)
    return records


def _cell(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)
