"""Whether attributes remain, and nothing else."""

import itertools

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.protocols.vertical_id3.messages import CompareReply, CompareStart, Sum, to_bytes
from hedgerow.protocols.vertical_id3.node import is_r_empty
from hedgerow.protocols.vertical_id3.programs import LocalSites, SiteProgram
from hedgerow.protocols.vertical_id3.site import Site
from tests.protocols.vertical_id3.ppid3_runs import Wire, growing, grown, sites_of, weather

GROUPS = [[0, 1], [2], [3]]


def fresh() -> list[Site]:
    sites = sites_of(weather(), GROUPS, class_at=0)
    grown(sites)
    growing(sites)
    return sites


def asked(sites: list[Site], first: int, tap: Wire | None = None) -> bool:
    done: list[bool] = []
    local = LocalSites(sites, tap)
    out = local.programs[first].start(is_r_empty(sites[first]), done.append)
    local._carry([(first, out)])
    return done[0]


def use_up(site: Site, used: bool) -> None:
    for attribute in range(len(site.constraints.tuple)):
        if used:
            site.constraints.set(attribute, 0)


def test_empty_if_and_only_if_no_site_has_attributes() -> None:
    for flags in itertools.product([False, True], repeat=3):
        sites = fresh()
        for site, left in zip(sites, flags, strict=True):
            use_up(site, not left)
        for first in range(3):
            assert asked(sites, first) == (not any(flags))


def test_one_message_each_and_four_encryptions() -> None:
    sites, wire = fresh(), Wire()
    before = sum(site.meter.comparisons for site in sites)
    asked(sites, 1, wire)
    kinds = [(sender, to, type(message)) for sender, to, message in wire.messages]
    assert set(kinds) == {
        (1, 2, Sum),
        (2, 0, Sum),
        (1, 0, CompareStart),
        (0, 1, CompareReply),
    }
    assert len(kinds) == 4
    assert sum(site.meter.comparisons for site in sites) - before == 4


def test_sums_in_passing_are_uniform(chi_square: object) -> None:
    sites = fresh()
    for site in sites:
        # More questions than any tree of this table can ask, which the declaration would refuse.
        site.learn = lambda name, shape: None  # type: ignore[method-assign]
    tops = []
    for _ in range(300):
        wire = Wire()
        asked(sites, 0, wire)
        tops.append([message.total >> 62 for message in wire.of(Sum)])
    counts = np.array([np.bincount(column, minlength=4) for column in np.array(tops).T])
    # Drawn by the operating system: a bound that chance passes once in ten million runs.
    assert all(chi_square(row, np.full(4, 0.25)) > 1e-7 for row in counts)


@pytest.mark.parametrize(
    ("sender", "message"),
    [
        (1, Sum(9, (0, 1), 5)),
        (1, Sum(9, (0, 1, 2), 5)),
        (2, Sum(9, (1, 2, 2), 5)),
        (1, Sum(9, (1, 2, 0), 5)),
    ],
)
def test_sums_out_of_turn_are_refused(sender: int, message: Sum) -> None:
    with pytest.raises(HedgerowError, match=f"from site {sender}") as caught:
        SiteProgram(fresh()[0]).receive(sender, to_bytes(message))
    assert caught.value.code is Code.BAD_SITE_MESSAGE
