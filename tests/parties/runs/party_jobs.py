"""Jobs and manifests for tests."""

from typing import Any

from hedgerow.parties.runs.jobs import ServerJob
from hedgerow.parties.store.manifests import UploadManifest
from hedgerow.tables import Domain
from tests.parties.roles.upload_servers import DOMAIN

ZERO = "0" * 64


def job_dict(**changes: Any) -> dict[str, Any]:
    """Return a job that nothing is wrong with, but for the changes."""
    plan = {"epsilon": 1.0, "max_depth": 2, "capacity": 100} | changes.pop("plan", {})
    return {
        "name": "readmission",
        "protocol": "hidden-tree",
        "model": "readmission-1",
        "population": "patients",
        "uploads": ["north-1", "south-1"],
        "partition": "horizontal",
        "analysts": ["zoe"],
        "plan": {key: value for key, value in plan.items() if value is not None},
        "domain": DOMAIN.to_dict(),
    } | changes


def make_job(**changes: Any) -> ServerJob:
    return ServerJob.model_validate(job_dict(**changes))


def make_manifest(id: str = "north-1", rows: int = 50, domain: Domain = DOMAIN, **more: Any):
    fields = {"population": "patients", "owner": id.partition("-")[0], "seeds": (ZERO, ZERO)} | more
    return UploadManifest(id=id, rows=rows, domain=domain, correction=ZERO, **fields)
