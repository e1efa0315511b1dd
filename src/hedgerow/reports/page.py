"""Facts as one page of HTML, which needs no script, no other file and no network."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from hedgerow import __version__
from hedgerow.charts.look import printable_lines
from hedgerow.errors import Code
from hedgerow.parties.store.durable import replacing
from hedgerow.privacy import Guarantee, Ledger
from hedgerow.privacy.statement import WHICH, by_or_why
from hedgerow.reports.audiences import cards, named, totals_of
from hedgerow.reports.facts import Facts
from hedgerow.reports.ledger_tree import ledger_tree
from hedgerow.reports.pictures import importance_svg, privacy_curve_svg, shape_svg, tree_svg
from hedgerow.reports.pictures.pieces import TreePiece
from hedgerow.reports.pictures.shapes import drawn_attributes
from hedgerow.reports.pictures.trees import HiddenTree
from hedgerow.reports.privacy_curve import epsilon_over_delta
from hedgerow.reports.words import NOT_PROMISED, SETTINGS, model_noun, steps_in_words
from hedgerow.tables import Attribute
from hedgerow.trees.boosted import Boosted
from hedgerow.trees.export.text import count_noun, describe, function_caption
from hedgerow.trees.importance import importances
from hedgerow.trees.tree import Tree

_MOST_TREES = 8
_MOST_SHAPES = 12
_DEPTH = 5
_MOST_LABELS = 12


def write_report(facts: Facts, page: Path, *, force: bool = False) -> Path:
    """Write the page, with mode 0600, as a whole or not at all; return where.

    H902 for a file that is there, unless it may be replaced.
    """
    # Where nobody may look, it is for the writing to say so.
    if os.path.exists(page) and not force:
        raise Code.FILE_EXISTS.error(found=str(page))
    text = report_page(facts)
    with replacing(page) as file:
        file.write(text.encode("utf-8"))
    return page


def report_page(facts: Facts) -> str:
    """Return the page; every text of it that comes from outside is escaped."""
    totals = dict(facts.totals) if facts.ledger is None else totals_of(facts.ledger)
    page: str = _template().render(
        facts=facts,
        words=SETTINGS[facts.setting],
        noun=model_noun(facts),
        cards=cards(totals, facts.names),
        trees=_hidden_trees(facts) if facts.hidden else _trees(facts),
        charts=_charts(facts),
        sum=describe(facts.model) if isinstance(facts.model, Boosted) else "",
        attributes=[] if facts.domain is None else list(map(_attribute, facts.domain.attributes)),
        parameters=_parameters(facts),
        steps=steps_in_words({one.stage for cost in facts.costs for one in cost.stages}),
        sections=_sections(facts),
        not_promised=NOT_PROMISED,
        version=__version__,
        theme=Markup(files(__package__).joinpath("pages/theme.css").read_text("utf-8")),  # noqa: S704
        **_ledger_parts(facts.ledger),
    )
    return page


def _sections(facts: Facts) -> dict[str, str]:
    """Return the headings of what there is to tell, by their anchors."""
    told_otherwise = facts.setting in ("clear", "holder", "owners")
    found = {
        "epsilon": "Who may learn what",
        "model": "The model",
        "accuracy": "Accuracy" if facts.accuracies else "",
        "ledger": "The ledger",
        "openings": "What each party learned" if facts.openings or told_otherwise else "",
        "cost": "Cost" if facts.costs else "",
        "card": "Model card",
    }
    return {anchor: heading for anchor, heading in found.items() if heading}


def _ledger_parts(ledger: Ledger | None) -> dict[str, Any]:
    if ledger is None:
        return {
            "summary": [],
            "which": "",
            "scopes": [],
            "curves": [],
            "marks": [],
            "condition": "",
        }
    summary = [by_or_why(row) for row in ledger.short_summary()]
    condition = ledger.condition
    charged = [audience for audience in ledger.audiences if ledger.calls(audience)]
    return {
        "summary": summary,
        "which": WHICH if any(row["private"] == "yes" for row in summary) else "",
        "scopes": [ledger_tree(ledger, audience) for audience in charged],
        "curves": [curve for audience in charged if (curve := _curve(ledger, audience))],
        "marks": ledger.not_private,
        "condition": condition and f"{condition[0].upper()}{condition[1:]}.",
    }


def _curve(ledger: Ledger, audience: str) -> Mapping[str, Any] | None:
    """Return the curve of an audience to whom something is promised, at every second power."""
    if not ledger.total(audience).private:
        return None
    points: list[Guarantee] = [
        point for point in epsilon_over_delta(ledger, audience)[::2] if point.private
    ]
    if not points:
        return None
    return {
        "audience": audience,
        "points": points,
        "picture": _drawn(privacy_curve_svg(ledger, audience)),
    }


def _drawn(picture: str) -> Markup:
    # Pictures escape every text in them.
    return Markup(picture)  # noqa: S704


def _trees(facts: Facts) -> list[tuple[str, Markup]]:
    """Return captions and pictures, of many trees the first ones."""
    model = facts.model
    if model is None:
        return []
    trees = (model,) if isinstance(model, Tree) else model.trees
    found = []
    for number, tree in enumerate(trees[:_MOST_TREES]):
        leaves = count_noun(tree.n_leaves, "leaf", "leaves")
        size = f"{leaves}, {count_noun(tree.depth, 'level', 'levels')}"
        if isinstance(model, Tree):
            caption = size
            if tree.labels_alone:
                caption += ". Leaves say a class, and not how many records"
            elif facts.ledger is not None:
                caption += ". Counts are as they were released"
        elif isinstance(model, Boosted):
            caption = f"Function {number}, {function_caption(model, number)}: what it adds"
        else:
            caption = f"Tree {number}: {size}"
        found.append((caption, _drawn(tree_svg(tree, _DEPTH, noisy=facts.ledger is not None))))
    return found


def _hidden_trees(facts: Facts) -> list[tuple[str, Markup]]:
    """Return what may be seen of hidden trees; the trees of one shape are drawn once."""
    numbers: dict[HiddenTree | TreePiece, list[int]] = {}
    for number, tree in enumerate(facts.hidden):
        numbers.setdefault(tree, []).append(number)
    found = []
    for tree, alike in list(numbers.items())[:_MOST_TREES]:
        if isinstance(tree, TreePiece):
            nodes = count_noun(len(tree.children) - sum(tree.elsewhere), "node", "nodes")
            found.append((f"A piece that lies here, {nodes}", _drawn(tree_svg(tree))))
            continue
        each = f"Tree {alike[0]}" if len(alike) == 1 else f"Each of {len(alike):,} trees"
        caption = "What is public of it" if len(facts.hidden) == 1 else f"{each}: what is public"
        found.append((caption, _drawn(tree_svg(tree))))
    return found


def _charts(facts: Facts) -> list[tuple[str, Markup]]:
    """Return what a forest or boosted functions say of the attributes, as pictures."""
    model, noisy = facts.model, facts.ledger is not None
    if model is None or isinstance(model, Tree):
        return []
    found = [("How much each attribute matters", _drawn(importance_svg(model, noisy=noisy)))]
    if isinstance(model, Boosted):
        shares = importances(model).shares
        order = sorted(drawn_attributes(model), key=lambda j: -float(shares[j]))[:_MOST_SHAPES]
        names = model.domain.names
        found += [
            (f"What {names[j]} adds to the score", _drawn(shape_svg(model, j))) for j in order
        ]
    return found


def _parameters(facts: Facts) -> tuple[tuple[str, str], ...]:
    """Return the parameters; a capacity that is not set is that of the domain."""
    capacity = None if facts.domain is None else facts.domain.capacity
    if capacity is None:
        return facts.parameters
    unset, theirs = ("capacity", "not set"), ("capacity", f"not set: {capacity:,}, the domain's")
    return tuple(theirs if one == unset else one for one in facts.parameters)


def _attribute(attribute: Attribute) -> tuple[str, str, str, str]:
    if attribute.kind == "numeric":
        low, high = attribute.bounds or (0.0, 0.0)
        values = f"from {low:g} to {high:g}, in {attribute.n_values:,} ranges"
    else:
        labels = [str(one) for one in attribute.categories or ()]
        more = f" and {len(labels) - _MOST_LABELS:,} more" if len(labels) > _MOST_LABELS else ""
        values = ", ".join(labels[:_MOST_LABELS]) + more
        values += "; all others share a bin" if attribute.outside == "clip" else ""
    missing = "has a value of its own" if attribute.missing == "own bin" else "is refused"
    return attribute.name, attribute.kind, values, missing


@cache
def _template() -> Any:
    environment = Environment(
        loader=PackageLoader("hedgerow.reports", "pages"),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["octets"] = _octets
    environment.filters["seconds"] = _seconds
    environment.filters["named"] = named
    return environment.get_template("report.html")


def _shown(value: object) -> object:
    """Show what no reader sees in a text from outside, such as a change of direction."""
    is_text = isinstance(value, str) and not isinstance(value, Markup)
    return printable_lines(value) if is_text else value


def _octets(n: int) -> str:
    """Write a number of bytes as people do."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n >= size:
            return f"{n / size:,.3g} {unit}"
    return f"{n:,} B"


def _seconds(taken: float | None) -> str:
    return "not told" if taken is None else f"{taken:,.2f} s"
