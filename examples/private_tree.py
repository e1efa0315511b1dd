"""What privacy costs: accuracy against epsilon on the breast cancer data, beside the plain tree.

One curator holds all rows here; for several organisations see demo.py. Everything comes with the
installation: the data with scikit-learn, the public domain in breast_cancer.toml next to this file.
"""

from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from hedgerow import CARTClassifier, Domain, DPTreeClassifier

EPSILONS = (0.1, 0.5, 1.0, 3.0, 10.0)
SPLITS = range(30)


def main() -> None:
    """Train on 30 random splits for each epsilon and print accuracy and the ledger."""
    console = Console(width=100)
    data = load_breast_cancer()
    domain = Domain.from_toml(Path(__file__).with_name("breast_cancer.toml"))
    models = {None: CARTClassifier(max_depth=4, domain=domain)}
    models |= {e: DPTreeClassifier(epsilon=e, domain=domain) for e in EPSILONS}
    scores: dict[float | None, list[tuple[float, float]]] = {e: [] for e in models}
    depth = {}
    for split in track(SPLITS, description="30 splits", console=console, transient=True):
        X, X_test, y, y_test = train_test_split(
            data.data, data.target, test_size=0.25, random_state=split, stratify=data.target
        )
        for epsilon, model in models.items():
            model.fit(X, y)
            depth[epsilon] = model.get_depth()
            scores[epsilon].append(
                (
                    model.score(X_test, y_test),
                    roc_auc_score(y_test, model.predict_proba(X_test)[:, 1]),
                )
            )

    majority = max(np.bincount(data.target)) / len(data.target)
    table = Table(title="Breast cancer (569 rows, 30 attributes), mean of 30 splits 75:25")
    for column in ("model", "epsilon", "depth", "accuracy", "± (one split)", "ROC AUC"):
        table.add_column(column, justify="left" if column == "model" else "right")
    table.add_row("always 'benign'", "0", "0", f"{majority:.3f}", "", "0.500")
    for epsilon in (*EPSILONS, None):
        accuracy, auc = np.mean(scores[epsilon], axis=0)
        spread = np.std([s for s, _ in scores[epsilon]])
        name = "CARTClassifier (no privacy)" if epsilon is None else "DPTreeClassifier"
        table.add_row(
            name,
            "none" if epsilon is None else f"{epsilon:g}",
            str(depth[epsilon]),
            f"{accuracy:.3f}",
            f"{spread:.3f}",
            f"{auc:.3f}",
        )
    console.print(table)
    console.print(
        "Accuracy on held-out rows is itself computed from rows; these are public, so it may be "
        "printed.\nOn private data it would be a release, to be charged like any other.\n",
        style="dim",
    )

    private = DPTreeClassifier(epsilon=1.0, domain=domain).fit(data.data, data.target)
    console.print("[bold]A tree at epsilon 1, as the public sees it[/] (counts are noisy)")
    console.print(private.to_text(), markup=False, highlight=False)
    console.print("[bold]Its ledger: what was released, to whom, at what cost[/]")
    console.print(str(private.privacy_), markup=False, highlight=False)


if __name__ == "__main__":
    main()
