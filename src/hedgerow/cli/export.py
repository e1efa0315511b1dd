"""``hedgerow export`` and ``hedgerow ledger``: a model for other programs, and what it has cost."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from hedgerow.cli.formats import Format, FormatOption
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
    from hedgerow.trees import Tree, read_model, to_svg, to_text
    from hedgerow.trees.export.onnx import to_onnx

    if out.exists() and not force:
        raise Code.FILE_EXISTS.error(found=str(out))
    read = read_model(model)
    trees = (read.model,) if isinstance(read.model, Tree) else read.model.trees
    if not 0 <= number < len(trees):
        raise Code.BAD_PARAMETER.error(
            expected=f"a tree from 0 to {len(trees) - 1}", found=f"tree {number}"
        )
    noisy = read.privacy is not None
    content: bytes
    match to:
        case ExportKind.onnx:
            content = to_onnx(read.model, on=on.value).SerializeToString()
        case ExportKind.json:
            content = read.model.to_json().encode("utf-8")
        case ExportKind.svg:
            content = to_svg(trees[number], noisy=noisy).encode("utf-8")
        case ExportKind.text:
            content = to_text(trees[number], noisy=noisy).encode("utf-8")
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
    from hedgerow.privacy import Ledger, statement

    found = Ledger.from_json(_ledger_text(file))
    if format is Format.json:
        rows = [
            {k: statement.plain(v) if isinstance(v, float) else v for k, v in row.items()}
            for row in found.short_summary()
        ]
        print(json.dumps({"ok": True, "summary": rows, "ledger": json.loads(found.to_json())}))
    else:
        print(found)


def _ledger_text(file: Path) -> str:
    """Return the text of the ledger in a file, a model or a folder with one of them."""
    from hedgerow import jsonfile

    if file.is_dir():
        named = [file / name for name in ("ledger.json", "model.json")]
        file = next((path for path in named if path.exists()), named[0])
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not text in UTF-8"
        raise Code.BAD_LEDGER_FILE.error(
            expected="a ledger or model file (JSON), or a folder that has one",
            found=f"{file}: {why}",
            fix="check the path; `hedgerow fit` writes ledger.json beside model.json",
        ) from None
    data = jsonfile.loads(text, Code.BAD_LEDGER_FILE)
    if "privacy" not in data:
        # A ledger itself, or something that its reader will name.
        if "domain" in data and "entries" not in data:
            raise Code.BAD_LEDGER_FILE.error(
                expected="a model with a ledger in it",
                found=f"{file}: a model without one",
                fix="look for ledger.json beside it; a model that makes no claim has none",
            )
        return text
    return json.dumps(data["privacy"])
