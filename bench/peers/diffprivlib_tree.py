"""Runs inside its own environment: diffprivlib's tree on the table that comes on standard input."""

import json
import statistics
import sys
import time
import warnings

import numpy as np
from diffprivlib.models import DecisionTreeClassifier


def main() -> None:
    """Fit for each epsilon and split; print accuracies and the median fit time."""
    warnings.simplefilter("ignore")
    job = json.load(sys.stdin)
    X, y = np.array(job["X"]), np.array(job["y"])
    bounds = (np.array(job["low"]), np.array(job["high"]))
    result = []
    for epsilon in job["epsilons"]:
        # Its depth is a parameter without an automatic rule: the best of all is what it could do.
        best = {"accuracy": 0.0}
        for depth in job["depths"]:
            scores, times = [], []
            for train, test in job["splits"]:
                start = time.perf_counter()
                model = DecisionTreeClassifier(
                    epsilon=epsilon, max_depth=depth, bounds=bounds, classes=job["classes"]
                ).fit(X[train], y[train])
                times.append(time.perf_counter() - start)
                scores.append(float((model.predict(X[test]) == y[test]).mean()))
            found = {
                "epsilon": epsilon,
                "depth": depth,
                "accuracy": statistics.mean(scores),
                "seconds": statistics.median(times),
            }
            best = max(best, found, key=lambda item: item["accuracy"])
        result.append(best)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
