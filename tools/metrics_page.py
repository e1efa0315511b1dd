"""Write the reference page of all metrics; `make docs` calls it with the path.

A party shows no number that is not declared as a `Metric`; the page is made of these.
"""

from __future__ import annotations

import sys
from pathlib import Path

from hedgerow.parties.roles import numbers
from hedgerow.parties.wire import metrics
from hedgerow.parties.wire.metrics import CONTENT_TYPE, Metric

HEAD = f"""# Metrics

What a party shows at `/metrics`, on the port of [requests](wire.md#requests), as Prometheus reads
it (`{CONTENT_TYPE}`). This page is made of the declarations in the
code (`make docs`). They are public numbers: how runs get on, what is left of budgets and
certificates, how many requests came. No row, share or answer is in them, and of runs of sites and
peers neither level nor stage, rounds nor bytes: those may follow from rows. They are for members;
with `open_metrics = true` in `policy.toml` also for callers that show no certificate.

| name | kind | by | what it is |
|---|---|---|---|
"""

TAIL = """
Names that end in `_total` grow as long as a party serves. `outcome` of a request is `ok` or the
number of an [error](../errors/README.md), `way` is `in` or `out`. Of runs that have ended only
their number by state is left.

What to watch: `hedgerow_certificate_days` below 30
([renew a key](../how-to/consortium.md#renew-a-key)), `hedgerow_epsilon_left` that is too small for
the next job, `hedgerow_run_waiting_for` that names the same party for longer than `rejoin`, and
outcomes of requests that are no `ok`.
"""


def declared() -> list[Metric]:
    """Return what parties show, those of runs first."""
    found = [*vars(numbers).values(), *vars(metrics).values()]
    return [one for one in found if isinstance(one, Metric)]


def page() -> str:
    """Return the page."""
    rows = []
    for one in declared():
        labels = ", ".join(f"`{label}`" for label in one.labels)
        rows.append(f"| `{one.name}` | {one.kind} | {labels} | {one.about} |\n")
    return HEAD + "".join(rows) + TAIL


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
