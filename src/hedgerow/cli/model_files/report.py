"""``hedgerow show`` and ``hedgerow report``: a public model in the terminal, and as a page."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from hedgerow.cli.printing import Format, FormatOption, print_line
from hedgerow.errors import Code


def show(
    model: Annotated[
        Path, typer.Argument(help="model file (JSON), or the folder that hedgerow fit made")
    ],
    svg: Annotated[bool, typer.Option(help="print an SVG picture instead of text")] = False,
    depth: Annotated[int | None, typer.Option(help="levels to draw")] = None,
    number: Annotated[
        int, typer.Option("--tree", help="which tree of a forest, or function of boosting")
    ] = 0,
) -> None:
    """Draw a tree from its model file; of a boosted model also say how its functions add up."""
    from hedgerow.trees import read_model, to_svg, to_text
    from hedgerow.trees.boosted import Boosted
    from hedgerow.trees.export.text import describe, function_caption

    read = read_model(model)
    tree = read.tree(number)
    if read.privacy is not None:
        from hedgerow.privacy import Ledger

        total = Ledger.from_json(json.dumps(read.privacy)).total("public")
        Console(stderr=True).print(f"public: {total}", highlight=False)
    if isinstance(read.model, Boosted):
        # A picture has standard output for itself.
        drawn = f"function {number}, {function_caption(read.model, number)}: what it adds"
        print(f"{describe(read.model)}\n\n{drawn}", file=sys.stderr if svg else sys.stdout)
    draw = to_svg if svg else to_text
    print(draw(tree, max_depth=depth, noisy=read.privacy is not None))


def report(
    model: Annotated[
        Path, typer.Argument(help="model file (JSON), or the folder that hedgerow fit made")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="page to write; by default beside the model")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="replace a file of that name")] = False,
    format: FormatOption = Format.text,
) -> None:
    """Write one HTML page about a model: who may learn what, the trees, the ledger, a card."""
    from hedgerow.parties.store.durable import replacing
    from hedgerow.reports.model_file import facts_of_file
    from hedgerow.reports.page import report_page

    page = out or (model / "report.html" if model.is_dir() else model.with_suffix(".report.html"))
    if page.exists() and not force:
        raise Code.FILE_EXISTS.error(found=str(page))
    text = report_page(facts_of_file(model))
    with replacing(page) as file:
        file.write(text.encode("utf-8"))
    if format is Format.json:
        print(json.dumps({"ok": True, "report": str(page)}))
    else:
        print_line(f"wrote {page}")
