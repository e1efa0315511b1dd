"""Uploads fill the table of a job exactly, or the job is refused with what is in the way."""

import numpy as np
import pytest

from hedgerow.errors import Code
from hedgerow.parties.runs.job_tables import plane_order
from hedgerow.parties.store.manifests import format_version
from hedgerow.protocols.registry import SERVER_PROTOCOLS
from hedgerow.protocols.sharing.table import check_uploads
from hedgerow.protocols.sharing.uploaded import n_planes, planes_of, table_openings
from hedgerow.tables import Attribute, Domain, Encoded, Target
from tests.parties.roles.upload_servers import DOMAIN
from tests.parties.runs.party_jobs import make_job, make_manifest
from tests.parties.wire.parties_calls import refuses
from tests.protocols.record_count import CountProtocol

KEY = "a" * 64


def columns(id: str, names: list[str], *, target: bool = False, rows: int = 50, **more):
    domain = DOMAIN.select(names, target=target)
    return make_manifest(id, rows, domain, **{"alignment": KEY, "ids": "text", "version": 3} | more)


def vertical(**changes):
    return make_job(partition="vertical", plan={"capacity": 50}, **changes)


def test_rows_below_rows_in_the_order_of_the_job() -> None:
    job = make_job(plan={"capacity": 93})
    uploads = job.uploads_for([make_manifest("south-1", 43), make_manifest("north-1", 50)])
    assert [(u.party, u.first, u.rows, u.features, u.target) for u in uploads] == [
        (3, 0, 50, (0, 1, 2), True),
        (4, 50, 43, (0, 1, 2), True),
    ]
    assert check_uploads(job.make_plan().layout, uploads) == 93


def test_empty_slots_fill_up_what_trees_need() -> None:
    """Trees on disjoint slots have equal numbers of them."""
    job = make_job(plan={"capacity": 93, "n_trees": 10})
    uploads = job.uploads_for([make_manifest("south-1", 43), make_manifest("north-1", 50)])
    assert job.make_plan().n_slots == 100
    assert (uploads[-1].party, uploads[-1].first, uploads[-1].rows) == (5, 93, 7)
    assert check_uploads(job.make_plan().layout, uploads) == 100


def test_columns_beside_columns() -> None:
    job = vertical()
    uploads = job.uploads_for(
        [columns("south-1", ["ward"], target=True), columns("north-1", ["sex", "age"], rows=70)]
    )
    assert [(u.party, u.first, u.rows, u.features, u.target) for u in uploads] == [
        (3, 0, 70, (0, 2), False),
        (4, 0, 50, (1,), True),
    ]
    assert all(u.tagged for u in uploads)
    # As many as the smaller owner may have of the records of both.
    assert check_uploads(job.make_plan().layout, uploads) == 50
    opened = [name for name, _ in job.opened()]
    assert opened == [one.name for one in table_openings(uploads, "server")]


@pytest.mark.parametrize("target", [True, False], ids=["a target", "no target"])
def test_a_job_that_needs_no_target(target: bool, monkeypatch) -> None:
    """Whoever has one may leave it where it is."""
    monkeypatch.setitem(SERVER_PROTOCOLS, "count", CountProtocol())
    made = {"protocol": "count", "plan": {"max_depth": None, "capacity": 100}, "analysts": []}
    if not target:
        made["domain"] = DOMAIN.select(DOMAIN.names, target=False).to_dict()
    names = list(DOMAIN.names)
    both = [DOMAIN.select(names, target=had) for had in (target, False)]
    rows = [make_manifest(f"{at}-1", 50, d) for at, d in zip(("north", "south"), both, strict=True)]
    uploads = make_job(**made).uploads_for(rows)
    assert [(u.first, u.target) for u in uploads] == [(0, True), (50, True)]
    parts = [columns("north-1", ["sex", "age"]), columns("south-1", ["ward"], target=target)]
    job = make_job(**made | {"partition": "vertical", "plan": made["plan"] | {"capacity": 60}})
    uploads = job.uploads_for(parts)
    assert [(u.first, u.rows, u.target) for u in uploads] == [(0, 50, True), (0, 50, False)]
    domain = job.make_plan().domain
    # The other slots of the plan are those of the join.
    assert check_uploads(job.make_plan().layout, uploads) == 50
    sizes = [len(plane_order(domain, part)) for part in parts]
    assert sizes == [
        n_planes(part.domain.select(part.domain.names, target=False), tagged=True) for part in parts
    ]


@pytest.mark.parametrize(
    ("words", "manifests"),
    [
        ("none", []),
        ("north-1", [make_manifest("north-1")]),
        ("east-1", [make_manifest("north-1"), make_manifest("east-1")]),
        ("north-1, north-1", [make_manifest("north-1"), make_manifest("north-1")]),
        (
            "population staff",
            [make_manifest("north-1"), make_manifest("south-1", population="staff")],
        ),
        (
            "no 'sex'",
            [make_manifest("north-1"), make_manifest("south-1", 5, DOMAIN.select(["age", "ward"]))],
        ),
        (
            "no 'ill'",
            [
                make_manifest("north-1"),
                make_manifest("south-1", 5, DOMAIN.select(["age", "ward", "sex"], target=False)),
            ],
        ),
        (
            "column 'weight'",
            [
                make_manifest("north-1"),
                make_manifest(
                    "south-1",
                    5,
                    DOMAIN.model_copy(
                        update={
                            "attributes": (
                                *DOMAIN.attributes,
                                Attribute(name="weight", kind="numeric", bounds=(0, 1), bins=2),
                            )
                        }
                    ),
                ),
            ],
        ),
        (
            "other bounds",
            [
                make_manifest("north-1"),
                make_manifest(
                    "south-1",
                    5,
                    DOMAIN.model_copy(
                        update={
                            "attributes": (
                                Attribute(name="age", kind="numeric", bounds=(0, 101), bins=5),
                                *DOMAIN.attributes[1:],
                            )
                        }
                    ),
                ),
            ],
        ),
        (
            "another one",
            [
                make_manifest("north-1"),
                make_manifest(
                    "south-1",
                    5,
                    DOMAIN.model_copy(update={"target": Target(name="ill", classes=("yes", "no"))}),
                ),
            ],
        ),
        (
            "both of north",
            [make_manifest("north-1"), make_manifest("south-1", owner="north")],
        ),
        ("100 slots", [make_manifest("north-1", 60), make_manifest("south-1", 41)]),
    ],
)
def test_rows_that_do_not_fit(words: str, manifests) -> None:
    error = refuses(Code.UPLOADS_DO_NOT_FIT, lambda: make_job().uploads_for(manifests))
    assert words in error.found


def test_the_fix_for_too_many_slots_is_the_number() -> None:
    manifests = [make_manifest("north-1", 60), make_manifest("south-1", 41)]
    error = refuses(Code.UPLOADS_DO_NOT_FIT, lambda: make_job().uploads_for(manifests))
    assert "capacity = 101" in error.fix
    make_job(plan={"capacity": 101}).uploads_for(manifests)


def test_empty_slots_are_few() -> None:
    """They cost as much as full ones, so a job cannot ask for any number of them."""
    manifests = [make_manifest("north-1", 60), make_manifest("south-1", 40)]
    make_job(plan={"capacity": 264}).uploads_for(manifests)
    for plan in ({"capacity": 265}, {"capacity": 1 << 40}, {"n_trees": 1000}):
        error = refuses(
            Code.UPLOADS_DO_NOT_FIT, lambda plan=plan: make_job(plan=plan).uploads_for(manifests)
        )
        assert "capacity = 100" in error.fix


@pytest.mark.parametrize(
    ("words", "left", "right"),
    [
        ("another one", {}, {"alignment": "b" * 64}),
        ("calls number", {}, {"ids": "number"}),
        ("rows without ids", {}, {"alignment": "", "ids": None, "version": 1}),
        ("an earlier version", {}, {"ids": None, "version": 1}),
        ("'ill' in 0", {}, {"target": False}),
        ("'ill' in 2", {"target": True}, {}),
        ("'age' in 2", {}, {"names": ["ward", "age"]}),
        ("'sex' in 0", {"names": ["age"]}, {}),
    ],
)
def test_columns_that_do_not_fit(words: str, left, right) -> None:
    manifests = [
        columns("north-1", **{"names": ["age", "sex"]} | left),
        columns("south-1", **{"names": ["ward"], "target": True} | right),
    ]
    error = refuses(Code.UPLOADS_DO_NOT_FIT, lambda: vertical().uploads_for(manifests))
    assert words in error.found


def test_each_mistake_has_words_of_its_own_and_none_is_about_ids() -> None:
    """All of it stands in the manifests, which follow from public numbers and the key."""
    north = columns("north-1", ["age", "sex"])
    told = set()
    for more in ({"alignment": "b" * 64}, {"ids": "number"}, {"ids": None, "version": 1}):
        south = columns("south-1", ["ward"], target=True, **more)
        error = refuses(Code.UPLOADS_DO_NOT_FIT, lambda s=south: vertical().uploads_for([north, s]))
        told.add((error.expected, error.found, error.fix))
    assert len(told) == 3
    assert [("key file" in fix, "--id-type" in fix) for *_, fix in sorted(told)].count(
        (True, False)
    ) == 1


def test_columns_are_no_rows() -> None:
    """Their slots are in the order of tags, which a join makes random again."""
    manifests = [columns(f"{at}-1", list(DOMAIN.names), target=True) for at in ("north", "south")]
    error = refuses(Code.UPLOADS_DO_NOT_FIT, lambda: make_job().uploads_for(manifests))
    assert "columns to join" in error.found
    assert 'partition = "vertical"' in error.fix


def test_one_owner_of_all_columns_needs_no_key() -> None:
    job = vertical(uploads=["north-1"])
    assert len(job.uploads_for([make_manifest("north-1", 50)])) == 1


COST = DOMAIN.model_copy(update={"target": Target(name="cost", bounds=(0.0, 9.0))})


@pytest.mark.parametrize(("domain", "target"), [(DOMAIN, True), (DOMAIN, False), (COST, True)])
def test_planes_are_put_in_the_order_of_the_domain(domain: Domain, target: bool) -> None:
    rng = np.random.default_rng(0)
    bins = np.stack([rng.integers(0, n, 20) for n in DOMAIN.n_bins], axis=1)
    labels = rng.integers(0, 2, 20).astype(np.uint8 if domain is DOMAIN else np.float64)
    straight = Encoded(
        domain, np.asfortranarray(bins, dtype=DOMAIN.dtype), labels, rng.random(20) < 0.8
    )
    names = ["sex", "age", "ward"]
    turned = straight.select(names, target=target)
    straight = straight.select(list(DOMAIN.names), target=target)
    version = format_version(turned.domain)
    manifest = make_manifest(rows=20, domain=turned.domain, version=version)
    order = plane_order(DOMAIN, manifest)
    np.testing.assert_array_equal(planes_of(turned)[order], planes_of(straight))
