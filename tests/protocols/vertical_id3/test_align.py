"""Aligning: each site learns which of its own ids are common, and no more."""

import contextlib
from dataclasses import replace

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.protocols.vertical_id3 import align as ppid3_align
from hedgerow.protocols.vertical_id3.job import SiteJob
from hedgerow.protocols.vertical_id3.messages import (
    RECORDS,
    BringSet,
    Common,
    PassSet,
    from_bytes,
    to_bytes,
)
from hedgerow.protocols.vertical_id3.participant import SiteProgram
from hedgerow.protocols.vertical_id3.site import Site, SiteTable
from reproduce.paper_002.local_sites import LocalSites
from tests.protocols.vertical_id3.ppid3_runs import ManyKeys, Wire, grown, sites_of, weather

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
    root = grown(sites)
    assert all(sorted(site.table.ids.tolist()) == COMMON for site in sites)
    alone = sites_of(weather().rows(np.array(COMMON) - 1), GROUPS, class_at=0)
    expected = grown(alone)
    assert root == expected
    assert [site.nodes for site in sites] == [site.nodes for site in alone]


def test_with_noise_there_is_a_tree_also_of_no_common_record() -> None:
    """Whether there is one would tell, exactly, whether a record is there."""
    apart = [np.array([1, 2]), np.array([2, 3]), np.array([4, 5])]
    with pytest.raises(HedgerowError) as caught:
        grown(differing(apart))
    assert caught.value.code is Code.IDS_DO_NOT_ALIGN
    sites = differing(apart, epsilon=1.0, max_depth=1)
    assert grown(sites).site in range(3)
    assert [site.table.n_records for site in sites] == [0, 0, 0]


def test_encryptions_of_aligning() -> None:
    sites = differing(IDS)
    grown(sites)
    assert [site.meter.alignment for site in sites] == [sum(len(own) for own in IDS)] * 3


def test_no_id_is_seen_and_marks_say_no_more_than_their_number() -> None:
    sites, wire = differing(IDS), Wire()
    grown(sites, wire)
    every = [b"i" + int(day).to_bytes(8, "little") for day in range(1, 15)]
    plain = {row.tobytes() for row in sites[0].cipher.hash(every, "records")}
    passes = [m for m in wire.of(PassSet) if m.purpose == RECORDS]
    assert {m.owner for m in passes} == {0, 1, 2}
    for message in passes:
        (blob,) = message.groups
        assert not {blob[i : i + 32] for i in range(0, len(blob), 32)} & plain
    marks = wire.of(Common)
    # Those of each set pass the two other sites; the first one hands itself a message.
    assert sorted(m.owner for m in marks) == [0, 0, 0, 1, 1, 2, 2, 2]
    for message in marks:
        assert len(message.marks) == -(-len(IDS[message.owner]) // 8)
        assert sum(byte.bit_count() for byte in message.marks) == len(COMMON)
    learned = {row["name"]: row["values"] for row in sites[1].what_was_learned()}
    assert learned["which own ids all have"] == len(IDS[1])


def lying(sites: list[Site], lie) -> HedgerowError:
    """Run sites whose marks are changed on the way, and return the refusal."""
    local = LocalSites(sites)
    for program in local.programs:
        honest = program.receive

        def receive(sender: int, data: bytes, honest=honest, to=program.site.index):
            message = from_bytes(data, "x")
            if isinstance(message, Common):
                data = to_bytes(lie(sender, to, message))
            return honest(sender, data)

        program.receive = receive  # type: ignore[method-assign]
    with pytest.raises(HedgerowError) as caught:
        local.grow()
    return caught.value


@pytest.mark.parametrize(
    ("lie", "code"),
    [
        (lambda m: replace(m, marks=m.marks + b"\0"), Code.BAD_SITE_MESSAGE),
        (lambda m: replace(m, marks=b"\xff" * len(m.marks)), Code.BAD_SITE_MESSAGE),
        (lambda m: replace(m, owner=2), Code.BAD_SITE_MESSAGE),
        (lambda m: replace(m, owner=9), Code.BAD_SITE_MESSAGE),
        (lambda m: replace(m, marks=bytes(len(m.marks))), Code.SITE_CONTRADICTS),
        (lambda m: replace(m, marks=b"\x80" + bytes(len(m.marks) - 1)), Code.SITE_CONTRADICTS),
    ],
)
def test_marks_that_cannot_be_are_refused(lie, code: Code) -> None:
    def change(sender: int, to: int, message: Common) -> Common:
        return lie(message) if (sender, message.owner) == (0, 1) else message

    ids = [np.arange(1, 13), np.arange(1, 13), np.arange(1, 10)]
    assert lying(differing(ids), change).code is code


def test_records_of_some_sites_alone_are_not_brought() -> None:
    site = SiteProgram(differing(IDS)[1])
    site.begin()
    for sender, message in (
        (0, BringSet(1, RECORDS, 0, (0, 1))),
        (2, BringSet(1, RECORDS, 2, (0, 1, 2))),
    ):
        with pytest.raises(HedgerowError, match="to align records of the sites") as caught:
            site.receive(sender, to_bytes(message))
        assert caught.value.code is Code.BAD_SITE_MESSAGE


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


def held(n_sites: int, ids: list[np.ndarray]) -> list[Site]:
    """Make sites that hold one attribute each, and the first the class, of some people."""
    job = SiteJob(n_sites, 0, 2, align=True)
    return [
        Site(
            *(i, job),
            SiteTable(
                (own % 2).astype(np.uint8)[:, None],
                np.array([2]),
                (own % 3 > 0).astype(np.uint8) if i == 0 else None,
                own,
            ),
        )
        for i, own in enumerate(ids)
    ]


@pytest.mark.parametrize("n_sites", [2, 3])
@pytest.mark.parametrize(
    "claimed",
    [
        pytest.param(lambda _, sets: np.unique(np.concatenate(sets)), id="all elements"),
        pytest.param(lambda _, sets: sets[-1], id="all of the last site"),
    ],
)
def test_the_site_that_begins_cannot_have_others_give_away_their_ids(
    n_sites: int, claimed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It claims that elements are common which it does not have, and looks for ids in the bytes."""
    ids = [np.arange(1, 41), *([np.arange(21, 221)] * (n_sites - 1))]
    only_there = np.setdiff1d(ids[-1], ids[0])
    sites, wire = held(n_sites, ids), Wire()
    monkeypatch.setattr(ppid3_align, "reduce", claimed)
    with contextlib.suppress(HedgerowError):
        grown(sites, wire)
    arrived = b"".join(to_bytes(message) for _, to, message in wire.messages if to == 0)
    names = [b"i" + int(one).to_bytes(8, "little") for one in only_there]
    hashes = sites[0].cipher.hash(names, "records")
    found = sum(one.tobytes() in arrived for one in hashes)
    assert (found, len(only_there)) == (0, 180)


def test_with_three_sites_the_one_that_begins_can_tell_who_has_its_own_ids() -> None:
    """What aligning does not prevent, and the documentation says: which of its ids a site has."""
    sites, wire, cipher = differing(IDS), Wire(), ManyKeys()
    sites[0] = Site(0, sites[0].job, sites[0].table, cipher=cipher)
    with pytest.raises(HedgerowError, match="no id that all"):
        grown(sites, wire)
    passes = wire.of(PassSet, to=0)
    back = next(m for m in passes if (m.owner, m.layers) == (0, 3))
    second = next(m for m in passes if (m.owner, m.layers) == (1, 2))
    rows = cipher.recognised(back.groups, second.groups[0])
    # Ten of its ids, of which all have seven: it should not know whose the other three are.
    assert sorted(IDS[0][rows]) == list(range(3, 13))
    assert len(COMMON) == 7
