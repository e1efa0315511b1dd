"""``hedgerow export`` and ``hedgerow ledger``: a model for other programs, and what it has cost."""

from __future__ import annotations

import json
import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from hedgerow.cli.printing import Format, FormatOption
from hedgerow.errors import Code


class ExportKind(StrEnum):
    """What a model can be written as."""

    onnx = "onnx"
    json = "json"
    svg = "svg"
    text = "text"


class ExportInput(StrEnum):
    """What an exported model takes."""

    values = "values"
    bins = "bins"


def export(
    model: Annotated[
        Path, typer.Argument(help="model file (JSON), or the folder that hedgerow fit made")
    ],
    *,
    to: Annotated[ExportKind, typer.Option(help="format of the export")],
    out: Annotated[Path, typer.Option(help="file to write")],
    on: Annotated[
        ExportInput,
        typer.Option(help="what an ONNX model takes: raw numbers, or bins, which all models can"),
    ] = ExportInput.values,
    number: Annotated[
        int, typer.Option("--tree", help="which tree of a forest, for svg and text")
    ] = 0,
    force: Annotated[bool, typer.Option("--force", help="replace a file of that name")] = False,
    format: FormatOption = Format.text,
) -> None:
    """Write a public model as another program reads it; its ledger stays behind."""
    from hedgerow.parties.store.durable import replacing
    from hedgerow.trees import read_model, to_svg, to_text
    from hedgerow.trees.export.onnx import to_onnx

    if os.path.exists(out) and not force:
        raise Code.FILE_EXISTS.error(found=str(out))
    read = read_model(model)
    tree = read.tree(number)
    noisy = read.privacy is not None
    content: bytes
    match to:
        case ExportKind.onnx:
            content = to_onnx(read.model, on=on.value).SerializeToString()
        case ExportKind.json:
            content = read.model.to_json().encode("utf-8")
        case ExportKind.svg:
            content = to_svg(tree, noisy=noisy).encode("utf-8")
        case ExportKind.text:
            content = to_text(tree, noisy=noisy).encode("utf-8")
    with replacing(out) as file:
        file.write(content)
    if format is Format.json:
        print(json.dumps({"ok": True, "out": str(out), "to": to.value, "bytes": len(content)}))
    else:
        print(f"{out}: {to.value}, {len(content):,} bytes")


def ledger(
    file: Annotated[
        Path, typer.Argument(help="ledger or model file (JSON), or a folder that has one")
    ],
    format: FormatOption = Format.text,
) -> None:
    """Print the ledger of a model: what was released, to whom, and what it costs whom."""
    from hedgerow.jsonfile import plain
    from hedgerow.privacy import Ledger
    from hedgerow.trees.model import ledger_text

    found = Ledger.from_json(ledger_text(file))
    if format is Format.json:
        rows = [
            {k: plain(v) if isinstance(v, float) else v for k, v in row.items()}
            for row in found.short_summary()
        ]
        said = {"ok": True, "summary": rows, "condition": found.condition}
        print(json.dumps({**said, "ledger": json.loads(found.to_json())}))
    else:
        print(found)
