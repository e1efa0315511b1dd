"""Make the folders of four owners with a part of the breast cancer data each, and the job of all.

    python examples/flower/prepare.py demo

Everything comes with the installation: the data with scikit-learn, the public domain and the job in
domain.toml and job.toml beside this file. Real owners each make their own folder, at home.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import tomli_w
from sklearn.datasets import load_breast_cancer

from hedgerow.parties.consortium.founding import policy_toml
from hedgerow.parties.consortium.policy import Policy
from hedgerow.parties.store.durable import make_private, write_new
from hedgerow.parties.topdown.job import TopDownJob

HERE = Path(__file__).parent


def prepare(folder: Path, *, n_owners: int | None = None, **changes: Any) -> TopDownJob:
    """Make ``job.toml`` and ``owners/<name>/`` in a new folder; return the job.

    `n_owners` of the owners have all rows between them. `changes` are of the job's plan, such as
    ``method="local-rnm"``.
    """
    job = TopDownJob.load(HERE / "job.toml")
    plan = job.plan.model_copy(update=changes)
    job = job.model_copy(update={"owners": job.owners[:n_owners], "plan": plan})
    rows, k = breast_cancer(job), len(job.owners)
    parts = [rows.take(list(range(i, rows.num_rows, k))) for i in range(k)]
    make_folders(folder, job, dict(zip(job.owners, parts, strict=True)))
    return job


def make_folders(folder: Path, job: TopDownJob, tables: Mapping[str, pa.Table]) -> None:
    """Make the folders of a job's owners, each with its table."""
    make_private(folder)
    make_private(folder / "owners")
    write_new(folder / "job.toml", job.to_toml())
    policy = Policy(
        largest_epsilon_per_job=job.plan.epsilon,
        allowed_protocols=("topdown",),
        allowed_analysts=(),
        queries_per_model=0,
        queries_per_analyst=0,
        # Two jobs like this one in all.
        populations={job.population: 2 * job.plan.epsilon},
    )
    for name, table in tables.items():
        own = folder / "owners" / name
        make_private(own)
        about = {"name": name, "table": "table.parquet"}
        write_new(own / "owner.toml", tomli_w.dumps(about))
        write_new(own / "job.toml", job.to_toml())
        write_new(own / "policy.toml", policy_toml(policy))
        pq.write_table(table, own / about["table"])


def breast_cancer(job: TopDownJob) -> pa.Table:
    """Return the columns of the job's domain, with the target."""
    data = load_breast_cancer()
    at = {str(name): i for i, name in enumerate(data.feature_names)}
    columns = {name: pa.array(data.data[:, at[name]]) for name in job.domain.names}
    assert job.domain.target is not None
    return pa.table(columns | {job.domain.target.name: pa.array(data.target)})


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="made by this; must not exist")
    parser.add_argument("--method", choices=("noisy-counts", "local-rnm"), default="noisy-counts")
    parser.add_argument("--epsilon", type=float, default=2.0)
    given = parser.parse_args()
    job = prepare(given.folder, method=given.method, epsilon=given.epsilon)
    print(f"{given.folder}: job {job.run_id} of {', '.join(job.owners)}")
    print(job.make_plan())


if __name__ == "__main__":
    main()
