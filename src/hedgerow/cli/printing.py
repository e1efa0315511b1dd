"""How verbs print: the options that they share, bars, and errors as somebody at a shell reads them.

Advice in an error is given in flags and files, not in Python.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hedgerow.charts.look import printable_lines
from hedgerow.errors import Code, HedgerowError

if TYPE_CHECKING:
    from hedgerow.protocols.forecast import NoiseForecast

HERE = Path()
_WIDEST = 10_000
NOT_ALL = 1
"""Exit code where not all who were asked have done or told it."""
INTERRUPTED = 130
"""Exit code after an interrupt, as shells have it."""

# Estimators know their parameters by other names than the verbs that call them.
_FLAGS = {
    "fit": {
        "epsilon": "--epsilon",
        "delta": "--delta",
        "n_estimators": "--trees",
        "max_depth": "--depth",
        "max_leaves": "--leaves",
        "account": "--account",
        "random_state": "--seed",
        "domain": "--domain",
    },
    "account": {"epsilon": "--epsilon", "delta": "--delta", "fit_delta": "--fit-delta"},
    "upload": {
        "slots": "--slots",
        "ids": "--ids",
        "align_key": "--align-key",
        "id_type": "--id-type",
    },
}
_FOR_SHELLS = re.compile(r"--[a-z]|`hedgerow |\bhedgerow [a-z]")
# These read tables that a file of the party names, and take no flags for them.
_FIXED_TEXT = {
    Code.OTHER_DELIMITER: "write the file with commas between the cells",
    Code.OTHER_ENCODING: "write the file in UTF-8",
}
_WITH_FIXED_TEXT = ("train", "runs")
# These ask a model, whose domain is what it was trained on.
_ASKING = ("predict", "query")
_ABOUT_ROWS = {
    Code.MISSING_VALUE: "fill or drop those rows: the model has no answer for a missing value",
    Code.UNKNOWN_CATEGORY: "correct the value, or drop those rows: the model was trained on the "
    "listed ones, and knows no other",
    Code.OUTSIDE_BOUNDS: "correct the value, or drop those rows: the model was trained within "
    "these bounds",
    Code.MISSING_COLUMN: "give the rows all columns that the model was trained on, by their names",
}
_TO_TOML = "`Domain.to_toml()` of any domain shows the format"
_DRAFT = "`hedgerow domain suggest TABLE` shows the format"


class Format(StrEnum):
    """How a verb prints its result."""

    text = "text"
    json = "json"


ProbaOption = Annotated[
    bool,
    typer.Option(
        "--proba",
        help="class probabilities as well; noise alone where few rows were trained on",
    ),
]
FormatOption = Annotated[
    Format, typer.Option("--format", help="text for people, json for programs")
]
DelimiterOption = Annotated[
    str, typer.Option("--delimiter", help="between the cells of a CSV file, such as ';'")
]
EncodingOption = Annotated[
    str, typer.Option("--encoding", help="of a CSV file, such as latin-1 or utf-16")
]


def warn_of_endings(ctx: typer.Context, folder: Path) -> Path:
    """Print, on standard error, which certificates in a party's folder end soon."""
    if ctx.resilient_parsing:
        # A shell completes the line, and nobody reads what is printed.
        return folder
    from hedgerow.parties.consortium.config import PartyConfig
    from hedgerow.parties.consortium.members import endings

    try:
        found = endings(PartyConfig.load(folder))
    except HedgerowError:
        # What is wrong with the folder, the verb says.
        return folder
    for ending in found:
        print_line(f"warning: {ending.found}; {ending.fix}", stderr=True)
    return folder


FolderArgument = Annotated[
    Path, typer.Argument(help="folder of this party", callback=warn_of_endings)
]


def parse_names(text: str) -> list[str]:
    """Read an option of several names with commas between them; empty for none."""
    return [part.strip() for part in text.split(",")] if text.strip() else []


def print_line(text: str, *, stderr: bool = False) -> None:
    """Print a text as it is: paths are not cut where they do not fit into a line.

    What could steer the terminal is shown as an escape.
    """
    console = Console(stderr=stderr, emoji=False)
    console.print(printable_lines(text), markup=False, highlight=False, soft_wrap=True)


def print_table(table: Table) -> None:
    """Print a table as wide as its longest words: no name is cut, however narrow the terminal."""
    # The bytes :AB: of a fingerprint are no picture.
    console = Console(emoji=False)
    room = console.options.update_width(_WIDEST)
    for column in table.columns:
        texts = [column.header, *column.cells]
        column.min_width = max(console.measure(text, options=room).minimum for text in texts)
    least = console.measure(table, options=room).minimum
    Console(emoji=False, width=max(console.width, least)).print(table, crop=False)


def time_text(seconds: float) -> str:
    """Return a time since 1970, UTC, to the minute."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}"


def numbers_of(refusals: dict[str, HedgerowError]) -> dict[str, str]:
    """Return the numbers of errors, as a program reads who refuses."""
    return {name: error.code.number for name, error in refusals.items()}


def print_refusals(refusals: dict[str, HedgerowError]) -> None:
    """Print which servers do not tell what was asked, and why; on standard error."""
    for name, error in refusals.items():
        print_line(f"{name} tells nothing: {error}", stderr=True)


@contextmanager
def progress_bar(quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """Yield what shows a stage, what is done of it and of how much; a bar on standard error."""
    # Loaded here: all other verbs would wait for it, too.
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=quiet) as bars:
        task = bars.add_task("checking", total=None)

        def show(stage: str, done: int, of: int) -> None:
            bars.update(task, description=stage, completed=done, total=of or None)

        yield show


def print_forecast(foreseen: NoiseForecast, console: Console | None = None) -> None:
    """Print the expected noise, with a warning where it drowns the model; on standard error."""
    if not foreseen.expected and not foreseen.note:
        return
    console = console or Console(stderr=True)
    console.print(str(foreseen), markup=False, highlight=False, soft_wrap=True)
    if foreseen.drowns:
        console.print(f"[bold yellow]warning:[/] {escape(foreseen.warning)}", soft_wrap=True)


class Advice(NamedTuple):
    """The parts of an error."""

    expected: str
    found: str
    fix: str


def advice(error: HedgerowError, verb: str | None) -> Advice:
    """Return the parts of an error in the words of a verb.

    An error that speaks of flags or verbs already is left as it is. Otherwise the text for shells,
    where its number has one, takes the place of the advice, and parameters of estimators become
    flags of the verb.
    """
    fix, shell = error.fix, error.code.spec.shell
    if verb in _WITH_FIXED_TEXT:
        fix = _FIXED_TEXT.get(error.code, fix)
    if verb in _ASKING and fix == error.code.spec.fix and error.code in _ABOUT_ROWS:
        fix = _ABOUT_ROWS[error.code]
    elif shell and not _FOR_SHELLS.search(fix):
        fix = shell
    texts = [text.replace(_TO_TOML, _DRAFT) for text in (error.expected, error.found, fix)]
    for name, flag in _FLAGS.get(verb or "", {}).items():
        # `name=value` is Python; the bare word is one too where no English word is spelled so.
        texts = [re.sub(rf"(?<![\w.-]){name}=", f"{flag} ", text) for text in texts]
        if "_" in name:
            texts = [re.sub(rf"(?<![\w.-]){name}\b", flag, text) for text in texts]
    return Advice(*texts)


def verb_of(arguments: list[str]) -> str | None:
    """Return the verb of a command line, if there is one."""
    return next((word for word in arguments[1:] if not word.startswith("-")), None)


def error_fields(error: HedgerowError, verb: str | None = None) -> dict[str, str]:
    """Return an error as a program reads it."""
    verb = verb_of(sys.argv) if verb is None else verb
    return {"error": error.code.number, **advice(error, verb)._asdict()}


def print_error(error: HedgerowError, verb: str | None = None) -> None:
    """Print an error, without a traceback, on standard error."""
    said = advice(error, verb_of(sys.argv) if verb is None else verb)
    # The bytes :AB: of a fingerprint are no picture.
    console = Console(stderr=True, emoji=False)
    console.print(f"[bold red]{error.code.number}[/] {escape(error.code.spec.title)}")
    for label, text in zip(("expected", "found", "what to do"), said, strict=True):
        console.print(f"  {label}: {text}", markup=False, highlight=False)
