"""Results for a person: our figure beside the paper's."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table


def row(case: str, ours: float, paper: float | None = None, **more: Any) -> dict[str, Any]:
    """One result; `paper` is what the paper prints, absent where it shows a curve without figures.

    `**more`: notes, printed as they are.
    """
    result: dict[str, Any] = {"case": case, "ours": ours}
    if paper is not None:
        result["paper"] = paper
    return result | more


def print_result(result: dict[str, Any]) -> None:
    """Print the machine, the rows, the findings and where the figures are."""
    console = Console()
    console.print(", ".join(f"{key} {value}" for key, value in result["machine"].items()))
    kind = " (quick)" if result["quick"] else ""
    table = Table(title=f"reproduction of {result['seed']}{kind}")
    for column in ("case", "ours", "paper", "notes"):
        table.add_column(column, justify="right" if column in ("ours", "paper") else "left")
    for item in result["rows"]:
        figures = [f"{item[k]:.4g}" if k in item else "" for k in ("ours", "paper")]
        notes = ", ".join(f"{k} {v}" for k, v in item.items() if k not in ("case", "ours", "paper"))
        table.add_row(item["case"], *figures, notes)
    console.print(table)
    for check in result.get("checks", ()):
        console.print(
            f"{check['case']}, {check['data']}: clear engine {check['clear']:.3f}, three servers "
            f"{check['servers']:.3f}, {'agree' if check['same'] else 'DIFFER'}"
        )
    for text in (*result.get("notes", {}).values(), *result.get("findings", ())):
        console.print(f"- {text}")
    console.print(f"{result['seconds']:.0f} s. " + " ".join(result.get("files", ())))
