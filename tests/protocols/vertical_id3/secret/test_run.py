"""The same run on plain numbers, simulated, and by servers in processes."""

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.privacy import NoiseSource
from hedgerow.protocols.vertical_id3.run import VerticalRun, ask_sites
from hedgerow.trees import grow_id3
from tests.protocols.vertical_id3.ppid3_runs import dealt, weather
from tests.protocols.vertical_id3.secret.secret_runs import secret, tree_of


def test_a_seed_gives_the_same_noise_in_processes_and_sites_can_be_asked() -> None:
    table, groups = weather(), dealt(4, 2)
    options = {"epsilon": 40.0, "max_depth": 1, "seed": 7}
    here = secret(table, groups, 1, **options)
    apart = secret(table, groups, 1, engine="processes", **options)
    for one, other in zip(apart.sites, here.sites, strict=True):
        assert one.nodes == other.nodes
        assert one.meter == other.meter
        assert one.announced == other.announced
    bins = [table.bins[:, group] for group in groups]
    asked = [ask_sites(run.sites, table.ids, bins) for run in (apart, here)]
    assert np.array_equal(*asked)


def test_much_noise_changes_the_tree_and_little_does_not() -> None:
    table, groups = weather(), dealt(4, 2)
    quiet = secret(table, groups, 0, epsilon=4000.0, max_depth=2)
    assert tree_of(quiet, table, groups) == grow_id3(table, max_depth=2)
    loud = [secret(table, groups, 0, epsilon=0.1, max_depth=2, seed=seed) for seed in range(3, 7)]
    assert len({str(run.sites[0].nodes) for run in loud}) > 2


@pytest.mark.parametrize("engine", ["clear", "simulate"])
def test_a_seed_repeats_a_run_and_is_marked(engine: str) -> None:
    options = {"epsilon": 2.0, "max_depth": 2, "engine": engine}

    def run(seed: int) -> VerticalRun:
        sources = [NoiseSource.insecure_seeded(i) for i in range(3)]
        return secret(weather(), dealt(4, 3), 2, seed=seed, sources=sources, **options)

    first, second, other = map(run, (5, 5, 6))
    assert [site.nodes for site in first.sites] == [site.nodes for site in second.sites]
    assert len(first.sites[2].nodes) > 1
    # The sites' own seeds are the same: what differs is drawn by the servers.
    assert [site.nodes for site in first.sites] != [site.nodes for site in other.sites]
    assert first.ledger.total("public").epsilon == float("inf")
    assert first.sites[1].ledger.total("public").epsilon == float("inf")


def test_engines_are_named() -> None:
    with pytest.raises(HedgerowError) as caught:
        secret(weather(), dealt(4, 2), 0, engine="abacus")
    assert caught.value.code is Code.BAD_PARAMETER
