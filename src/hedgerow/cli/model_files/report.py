"""``hedgerow show`` and ``hedgerow report``: a public model in the terminal, and as a page."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from hedgerow.cli.printing import HERE, Format, FormatOption, print_line
from hedgerow.parties.consortium.names import is_name


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

        ledger = Ledger.from_json(json.dumps(read.privacy))
        print_line(f"public: {ledger.total('public')}", stderr=True)
        if ledger.condition:
            print_line(ledger.condition, stderr=True)
    if isinstance(read.model, Boosted):
        # A picture has standard output for itself.
        drawn = f"function {number}, {function_caption(read.model, number)}: what it adds"
        print(f"{describe(read.model)}\n\n{drawn}", file=sys.stderr if svg else sys.stdout)
    draw = to_svg if svg else to_text
    print(draw(tree, max_depth=depth, noisy=read.privacy is not None))


def report(
    model: Annotated[
        str,
        typer.Argument(
            help="model file (JSON), or the folder that hedgerow fit made; or a run or a model of "
            "a consortium, or the beginning of its name",
            metavar="MODEL|RUN",
        ),
    ],
    folder: Annotated[
        Path | None,
        typer.Argument(help="folder of this party, by default the one where you are"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="page to write; by default beside the model file, or here"
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="replace a file of that name")] = False,
    format: FormatOption = Format.text,
) -> None:
    """Write one HTML page about a model or a run: who may learn what, trees, ledger, costs, a card.

    In the folder of a party, it tells what that party knows, and nothing else: who takes part reads
    its own store, owners and analysts ask the members.
    """
    from hedgerow.reports.page import write_report

    file = Path(model)
    # Names of runs and models have no dots and no slashes, and mean nothing outside a consortium.
    here = os.path.exists(HERE / "party.toml")
    named = is_name(model) and not os.path.exists(file) and here
    if folder is None and not named:
        from hedgerow.reports.model_file import facts_of_file

        facts = facts_of_file(file)
        page = file / "report.html" if os.path.isdir(file) else file.with_suffix(".report.html")
    else:
        from hedgerow.parties.consortium.config import PartyConfig
        from hedgerow.reports.party import facts_of_party

        facts = facts_of_party(PartyConfig.load(folder or HERE), model)
        page = Path(f"{facts.name}.report.html")
    page = write_report(facts, out or page, force=force)
    if format is Format.json:
        print(json.dumps({"ok": True, "report": str(page)}))
    else:
        print_line(f"wrote {page}")
