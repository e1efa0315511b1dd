"""Aligning: each site learns which of its own ids are common, and no more."""

import numpy as np
import pytest
from ppid3_runs import Wire, grown, sites_of, weather

from hedgerow.errors import Code, HedgerowError
from hedgerow.protocols.ppid3_job import SiteJob
from hedgerow.protocols.ppid3_messages import Common, PassSet, Strip
from hedgerow.protocols.ppid3_site import Site
from hedgerow.protocols.ppid3_table import SiteTable
from hedgerow.protocols.set_cardinality import RECORDS

GROUPS = [[0, 1], [2], [3]]


def differing(ids: list[np.ndarray], **job) -> list[Site]:
    """Make sites that hold different days, in different orders."""
    encoded = weather()
    public = SiteJob(3, 0, 2, align=True, **job)
    sites = []
    for i, (group, own) in enumerate(zip(GROUPS, ids, strict=True)):
        rows = own - 1
        table = SiteTable(
            encoded.bins[rows][:, group],
            encoded.domain.n_bins[group].astype(np.int64),
            encoded.target[rows] if i == 0 else None,
            own,
        )
        sites.append(Site(i, public, table))
    return sites


IDS = [np.arange(1, 13), np.arange(14, 2, -1), np.array([5, 3, 9, 7, 11, 12, 4, 14, 1])]
COMMON = [3, 4, 5, 7, 9, 11, 12]


def test_the_common_records_remain_at_every_site() -> None:
    sites = differing(IDS)
    _, root = grown(sites)
    assert all(sorted(site.table.ids.tolist()) == COMMON for site in sites)
    alone = sites_of(weather().rows(np.array(COMMON) - 1), GROUPS, class_at=0)
    _, expected = grown(alone)
    assert root == expected
    assert [site.nodes for site in sites] == [site.nodes for site in alone]


def test_encryptions_of_aligning() -> None:
    sites = differing(IDS)
    grown(sites)
    n = sum(len(own) for own in IDS)
    assert [site.meter.alignment for site in sites] == [n + len(COMMON)] * 3


def test_ids_that_not_all_have_are_not_seen_elsewhere() -> None:
    sites, wire = differing(IDS), Wire()
    grown(sites, wire)
    plain = {
        i: {
            row.tobytes()
            for row in site.cipher.hash(
                [b"i" + int(d).to_bytes(8, "little") for d in own], "records"
            )
        }
        for i, (site, own) in enumerate(zip(sites, IDS, strict=True))
    }
    common = set.intersection(*plain.values())
    assert len(common) == len(COMMON)
    for message in wire.of(Common):
        rows = {message.common[i : i + 32] for i in range(0, len(message.common), 32)}
        assert rows == common
    everything = set.union(*plain.values())
    for message in [*wire.of(PassSet), *wire.of(Strip)]:
        blobs = message.groups if isinstance(message, PassSet) else (message.common,)
        rows = {blob[i : i + 32] for blob in blobs for i in range(0, len(blob), 32)}
        assert not rows & everything
    passes = [m for m in wire.of(PassSet) if m.purpose == RECORDS]
    assert {m.owner for m in passes} == {0, 1, 2}
    learned = {row["name"]: row["values"] for row in sites[1].what_was_learned()}
    assert learned["which own ids all sites have"] == len(IDS[1])


def test_no_common_record_is_refused() -> None:
    ids = [np.arange(1, 5), np.arange(5, 9), np.arange(1, 9)]
    with pytest.raises(HedgerowError, match="no id that all") as caught:
        grown(differing(ids))
    assert caught.value.code is Code.IDS_DO_NOT_ALIGN


def test_a_repeated_id_is_refused() -> None:
    encoded = weather()
    with pytest.raises(HedgerowError, match="3 in row 0") as caught:
        SiteTable(encoded.bins[:2], encoded.domain.n_bins, None, np.array([3, 3]))
    assert caught.value.code is Code.DUPLICATE_ID


@pytest.mark.parametrize("shift", [0, 3])
def test_ids_that_differ_are_noticed_without_aligning(shift: int) -> None:
    table = weather()
    sites = sites_of(table, GROUPS, class_at=0)
    other = table.ids + shift if shift else table.ids[:12]
    rows = slice(None, len(other))
    sites[2] = Site(
        2, sites[0].job, SiteTable(table.bins[rows][:, [3]], np.array([2]), None, other)
    )
    with pytest.raises(HedgerowError, match="align the records first") as caught:
        grown(sites)
    assert caught.value.code is Code.IDS_DO_NOT_ALIGN
