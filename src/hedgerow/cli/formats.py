"""How verbs print their results: the options that they share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

NOT_ALL = 1
"""Exit code where not all servers have done or told what was asked."""


class Format(StrEnum):
    """How a verb prints its result."""

    text = "text"
    json = "json"


FormatOption = Annotated[
    Format, typer.Option("--format", help="text for people, json for programs")
]
DelimiterOption = Annotated[
    str, typer.Option("--delimiter", help="between the cells of a CSV file, such as ';'")
]
EncodingOption = Annotated[
    str, typer.Option("--encoding", help="of a CSV file, such as latin-1 or utf-16")
]
FolderArgument = Annotated[Path, typer.Argument(help="folder of this party")]


def listed(text: str) -> list[str]:
    """Read an option of several names with commas between them; empty for none."""
    return [part.strip() for part in text.split(",")] if text.strip() else []
