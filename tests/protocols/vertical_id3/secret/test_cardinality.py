"""Trees on secret counts are those of ID3 and of the commutative cipher, whoever computes them."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from hedgerow import ID3Classifier
from hedgerow.errors import Code, HedgerowError
from hedgerow.protocols.vertical_id3.job import SiteJob
from hedgerow.protocols.vertical_id3.site import SiteTable
from hedgerow.tables import Encoded, encode
from hedgerow.trees import grow_id3
from tests.protocols.vertical_id3.ppid3_runs import PAPER, WEATHER, dealt, grown, sites_of, weather
from tests.protocols.vertical_id3.secret.secret_runs import run_secret, secret, tables_of, tree_of

SETS = {
    "car_evaluation": ("class", ()),
    "mushroom": ("class", ()),
    "titanic_887": ("Survived", ("Name",)),
}


def table_of(read: Callable[[str], pa.Table], name: str) -> Encoded:
    target, dropped = SETS[name]
    table = read(name)
    y = np.array([str(value) for value in table[target].to_pylist()])
    columns = table.drop_columns([target, *dropped])
    domain = ID3Classifier(missing="own bin").fit(columns, y).domain_
    return encode(columns, domain, y, ids=np.arange(len(y)))


@pytest.mark.parametrize("engine", ["clear", "simulate"])
@pytest.mark.parametrize("n_sites", [2, 3, 5])
@pytest.mark.parametrize("class_at", ["first", "last", None])
def test_each_site_stores_what_the_commutative_cipher_gives_it(
    engine: str, n_sites: int, class_at: str | None
) -> None:
    table, groups = weather(), dealt(4, n_sites)
    if class_at == "first":
        # The site without an attribute has to be the one with the class.
        groups.reverse()
    at = {"first": 0, "last": n_sites - 1, None: None}[class_at]
    run = secret(table, groups, at, engine=engine)
    sites = sites_of(table, groups, at)
    root = grown(sites)
    assert run.root == root
    assert [site.nodes for site in run.sites] == [site.nodes for site in sites]
    counted = [[site.meter.intersections for site in some] for some in (run.sites, sites)]
    assert counted[0] == counted[1]
    assert sum(site.meter.encryptions for site in run.sites) == 0


def test_every_site_may_be_asked_each_time() -> None:
    groups = dealt(4, 4)
    run = secret(weather(), groups, 3, ring="all")
    assert tree_of(run, weather(), groups) == grow_id3(weather())


def test_random_tables_with_contradictions_and_empty_branches() -> None:
    rng = np.random.default_rng(3)
    for seed in range(3):
        bins = np.asfortranarray(rng.integers(0, [3, 3, 2, 2], (15, 4)), dtype=np.uint8)
        table = Encoded(
            WEATHER, bins, rng.integers(0, 2, 15).astype(np.uint8), np.ones(15, bool), np.arange(15)
        )
        depth, groups = None if seed % 2 else 2, dealt(4, 2 + seed)
        run = secret(table, groups, seed % 2, max_depth=depth)
        assert tree_of(run, table, groups) == grow_id3(table, max_depth=depth)


def test_of_equal_gains_the_first_site_wins() -> None:
    # Both attributes are the class; the tree asks the first site's, in whichever order they lie.
    table = weather()
    same = Encoded(
        WEATHER.select([2, 3]),
        np.asfortranarray(np.stack([table.target, table.target], axis=1).astype(np.uint8)),
        table.target,
        table.present,
        table.ids,
    )
    for groups in ([[0], [1]], [[1], [0]]):
        run = secret(same, groups, 1)
        assert run.root.site == 0


def test_sites_may_have_their_records_in_any_order() -> None:
    table, rng = weather(), np.random.default_rng(1)
    tables = [one.rows(rng.permutation(14)) for one in tables_of(table, PAPER, 0)]
    run = run_secret(SiteJob(2, 0, 2), tables)
    assert tree_of(run, table, PAPER) == grow_id3(table)


def test_ids_that_differ_end_the_run_unless_they_are_aligned() -> None:
    table = weather()
    first, second = tables_of(table, PAPER, 0)
    # As many records, but day 14 here and day 15 there.
    other = SiteTable(second.bins, second.n_values, None, np.array([*range(1, 14), 15]))
    with pytest.raises(HedgerowError) as caught:
        run_secret(SiteJob(2, 0, 2), [first, other])
    assert caught.value.code is Code.IDS_DO_NOT_ALIGN
    run = run_secret(SiteJob(2, 0, 2, align=True), [first, other])
    common = table.rows(np.arange(13))
    assert tree_of(run, table, PAPER) == grow_id3(common)
    named = SiteTable(second.bins, second.n_values, None, np.arange(1, 15).astype(str))
    with pytest.raises(HedgerowError, match="other ids"):
        run_secret(SiteJob(2, 0, 2), [first, named])


@pytest.mark.parametrize(
    ("name", "every", "depth"),
    [
        ("car_evaluation", 1, 2),
        ("car_evaluation", 6, None),
        ("titanic_887", 1, 2),
        ("mushroom", 9, 1),
    ],
)
def test_real_tables(
    name: str, every: int, depth: int | None, dataset: Callable[[str], pa.Table]
) -> None:
    table = table_of(dataset, name)
    table = table.rows(np.arange(0, table.n_slots, every))
    groups = dealt(table.n_features, 3)
    run = secret(table, groups, 2, max_depth=depth)
    assert tree_of(run, table, groups) == grow_id3(table, max_depth=depth)


@pytest.mark.slow
@pytest.mark.parametrize("n_sites", [2, 3, 5])
@pytest.mark.parametrize("name", SETS)
def test_whole_trees(name: str, n_sites: int, dataset: Callable[[str], pa.Table]) -> None:
    table = table_of(dataset, name)
    groups = dealt(table.n_features, n_sites)
    run = secret(table, groups, n_sites - 1)
    assert tree_of(run, table, groups) == grow_id3(table)
