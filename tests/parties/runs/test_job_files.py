"""What all job files have in common: one text, one hash; the domain may stand in a file beside."""

from pathlib import Path

import pytest

from hedgerow.errors import Code
from hedgerow.parties.runs.job_files import MAX_JOB_BYTES, JobFile
from hedgerow.parties.runs.jobs import ServerJob
from hedgerow.parties.topdown.job import TopDownJob
from tests.parties.topdown.topdown_jobs import DOMAIN, job_dict, make_job
from tests.parties.wire.parties_calls import refuses


def test_the_text_of_a_job_is_the_same_job() -> None:
    job = make_job()
    again = TopDownJob.from_toml(job.to_toml())
    assert again == job
    assert again.hash == job.hash
    assert job.run_id == f"wards-{job.hash[:12]}"


def test_a_domain_beside_the_job_is_put_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "domain.toml").write_text(DOMAIN.to_toml())
    lines = make_job().to_toml().partition("[domain]")[0]
    (tmp_path / "job.toml").write_text(f'{lines}[domain]\nfile = "domain.toml"\n')
    assert TopDownJob.load(tmp_path / "job.toml").hash == make_job().hash
    refuses(Code.BAD_JOB, lambda: TopDownJob.from_toml((tmp_path / "job.toml").read_text()))


def test_the_protocols_are_told_apart() -> None:
    text = make_job().to_toml()
    assert "protocol" in refuses(Code.BAD_JOB, lambda: ServerJob.from_toml(text)).found
    assert issubclass(ServerJob, JobFile)


@pytest.mark.parametrize("text", ["a = ", "x" * (MAX_JOB_BYTES + 1), "a = " + "[" * 5000])
def test_what_is_no_toml_is_refused(text: str) -> None:
    refuses(Code.BAD_JOB, lambda: TopDownJob.from_toml(text))


def test_a_job_that_would_be_kept_as_more_than_may_be_read_is_refused() -> None:
    """Quotes take twice the room in what is written of it: at a start all kept jobs are read."""
    quotes = "'" + '"' * (MAX_JOB_BYTES * 3 // 4) + "'"
    name = f'name = "{DOMAIN.names[0]}"'
    text = make_job().to_toml()
    assert text.count(name) == 1
    found = refuses(
        Code.BAD_JOB, lambda: TopDownJob.from_toml(text.replace(name, f"name = {quotes}"))
    )
    assert f"more than {MAX_JOB_BYTES}" in found.found


def test_everything_goes_into_the_hash() -> None:
    def changed(**changes):
        return TopDownJob.model_validate(job_dict(**changes)).hash

    other = DOMAIN.model_copy(update={"capacity": 4001}).to_dict()
    hashes = [
        changed(),
        changed(name="ward"),
        changed(population="staff"),
        changed(owners=["north", "south", "west", "east"]),
        changed(model="wards-2"),
        changed(least_owners=2),
        changed(plan={"epsilon": 8.5}),
        changed(domain=other),
    ]
    assert len(set(hashes)) == len(hashes)
