"""``hedgerow query``: ask a model, as an analyst; or a tree in pieces, as one of its sites."""

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
    rows: Annotated[
        Path | None, typer.Argument(help="CSV, Parquet or Arrow file of rows to ask about")
    ] = None,
    folder: FolderArgument = HERE,
    *,
    ids: Annotated[
        list[str] | None,
        typer.Option("--id", help="at a site: id of an instance; may be given several times"),
    ] = None,
    kept: Annotated[
        bool, typer.Option("--kept", help="at the class site: show the answers that it keeps")
    ] = False,
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

    At a site, which names no file, ask the other sites for the class of instances by their ids.
    """
    from hedgerow.errors import Code
    from hedgerow.parties.consortium.config import PartyConfig
    from hedgerow.parties.queries.asking import Analyst, Reader, answer_with_tree
    from hedgerow.tables import TextFormat, encode, read_table

    if not timeout > 0:
        raise Code.BAD_PARAMETER.error(expected="a timeout above 0", found=f"{timeout}")
    if rows is None or ids or kept:
        # Without a file of rows, the folder is the first that is named.
        _ask_sites(folder if rows is None else rows, model, ids or [], kept, format)
        return
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


def _ask_sites(folder: Path, model: str, ids: list[str], kept: bool, format: AnswerFormat) -> None:
    """Ask the sites of a tree, or show what the class site keeps."""
    from hedgerow.errors import Code
    from hedgerow.parties.consortium.config import PartyConfig
    from hedgerow.parties.vertical.answering import ask_sites, read_kept

    config = PartyConfig.load(folder)
    if config.role != "site" or bool(ids) == kept:
        raise Code.BAD_PARAMETER.error(
            expected="a file of rows; or, at a site, ids of instances or --kept",
            found=f"neither, or both, at {config.name}, which is {config.me.kind}",
            fix="`hedgerow query MODEL ROWS`, or at a site `hedgerow query MODEL --id ID`",
        )
    if kept:
        job, found = read_kept(config.state, model)
        classes = [job.label(i) for i in range(job.n_classes)]
        names, counts = [name for name, _ in found], [one for _, one in found]
    else:
        with Console(stderr=True).status(f"asking {escape(model)}"):
            told, classes = ask_sites(config, model, ids)
        names, counts = list(ids), told or []
        if told is None:
            Console(stderr=True).print("The class site keeps the answers to itself.")
    records: list[dict[str, Any]] = [
        {"id": name, "class": _largest(classes, one), **dict(zip(classes, one, strict=True))}
        for name, one in zip(names, counts, strict=False)
    ]
    _print_records(records, model, None, format)


def _largest(classes: list[str], counts: list[int]) -> str:
    """Return the class with most records; the first of equal ones."""
    return classes[max(range(len(counts)), key=lambda i: (counts[i], -i))]


def _print(answers: ModelAnswers, model: str, left: int | None, format: AnswerFormat) -> None:
    _print_records(_records(answers), model, left, format)


def _print_records(
    records: list[dict[str, Any]], model: str, left: int | None, format: AnswerFormat
) -> None:
    if format is AnswerFormat.json:
        print(json.dumps({"ok": True, "model": model, "left": left, "rows": records}))
        return
    if not records:
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
