"""Runs inside its own environment: InterpretML's DP-EBM on a table in an .npz file.

Its best setting is the best mean ROC AUC on the test rows, chosen afterwards: more than a user of
it could know.
"""

import json
import statistics
import sys
import time
import warnings

import numpy as np
from interpret.privacy import DPExplainableBoostingClassifier
from sklearn.metrics import roc_auc_score

SETTINGS = [{}] + [
    {"max_rounds": rounds, "learning_rate": rate, "max_leaves": leaves}
    for rounds, rate, leaves in ((10, 0.3, 8), (4, 0.6, 16), (10, 0.3, 16), (30, 0.1, 16))
]


def main() -> None:
    """Fit every setting on every split for each epsilon; print means."""
    warnings.simplefilter("ignore")
    job = json.load(sys.stdin)
    data = np.load(job["file"])
    bounds = {
        i: (low, high) for i, (low, high) in enumerate(zip(data["low"], data["high"], strict=True))
    }
    bounds = {i: b for i, b in bounds.items() if not data["nominal"][i]}
    types = ["nominal" if nominal else "continuous" for nominal in data["nominal"]]
    result = []
    for epsilon in job["epsilons"]:
        found = []
        for setting in job.get("settings") or SETTINGS:
            runs = []
            for split in range(job["splits"]):
                train, test = data[f"train{split}"], data[f"test{split}"]
                model = DPExplainableBoostingClassifier(
                    epsilon=epsilon,
                    delta=job["delta"],
                    privacy_bounds=bounds,
                    feature_types=types,
                    n_jobs=1,
                    **setting,
                )
                start = time.perf_counter()
                model.fit(data["X"][train], data["y"][train])
                seconds = time.perf_counter() - start
                probability = model.predict_proba(data["X"][test])[:, 1]
                y = data["y"][test]
                runs.append(
                    {
                        "auc": float(roc_auc_score(y, probability)),
                        "accuracy": float(((probability > 0.5) == y).mean()),
                        "seconds": seconds,
                    }
                )
            means = {key: statistics.mean(run[key] for run in runs) for key in ("auc", "accuracy")}
            seconds = statistics.median(run["seconds"] for run in runs)
            found.append({"setting": setting, **means, "seconds": seconds})
        best = max(found, key=lambda item: item["auc"])
        result.append({"epsilon": epsilon, "default": found[0], "best": best})
    print(json.dumps(result))


if __name__ == "__main__":
    main()
