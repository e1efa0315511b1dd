"""Sites: constraints, what they store, what they refuse, and sites that do not say the truth."""

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.protocols.vertical_id3.job import SiteJob
from hedgerow.protocols.vertical_id3.messages import (
    NODE,
    RECORDS,
    Announce,
    AskGain,
    AskLeaf,
    BringSet,
    Common,
    CompareStart,
    Message,
    PassSet,
    Ready,
    Split,
    SubtreeGrown,
    Token,
    from_bytes,
    to_bytes,
)
from hedgerow.protocols.vertical_id3.participant import SiteProgram
from hedgerow.protocols.vertical_id3.run import joined_tree
from hedgerow.protocols.vertical_id3.site import ANY, Constraints, Interior, Leaf, Site, SiteTable
from reproduce.paper_002.local_sites import LocalSites
from tests.protocols.vertical_id3.ppid3_runs import (
    DAYS,
    PAPER,
    WEATHER,
    Wire,
    dealt,
    growing,
    grown,
    sites_of,
    weather,
)

BINS = np.array([[0, 1, 0], [0, 0, 1], [1, 1, 1], [0, 1, 1]], dtype=np.uint8)


def made() -> Constraints:
    return Constraints(BINS, np.array([2, 2, 2]))


def test_everything_satisfies_no_constraint() -> None:
    constraints = made()
    assert constraints.tuple.tolist() == [ANY] * 3
    assert constraints.form_trans_set().tolist() == [0, 1, 2, 3]
    assert constraints.remaining == [0, 1, 2]


def test_constraints_narrow_and_widen() -> None:
    constraints = made()
    constraints.set(0, 0)
    constraints.set(2, 1)
    assert constraints.tuple.tolist() == [0, ANY, 1]
    assert constraints.form_trans_set().tolist() == [1, 3]
    assert constraints.remaining == [1]
    # The next value of the same attribute takes the place of the last one.
    constraints.set(2, 0)
    assert constraints.form_trans_set().tolist() == [0]
    constraints.set(2, ANY)
    assert constraints.form_trans_set().tolist() == [0, 1, 3]
    constraints.set(0, ANY)
    assert constraints.form_trans_set().tolist() == [0, 1, 2, 3]


def test_only_the_latest_is_freed() -> None:
    constraints = made()
    constraints.set(0, 0)
    constraints.set(2, 1)
    with pytest.raises(AssertionError):
        constraints.set(0, ANY)


def test_rows_apart_by_label() -> None:
    constraints = made()
    constraints.set(1, 1)
    groups = constraints.by(np.array([2, 0, 0, 2]), 4)
    assert [group.tolist() for group in groups] == [[2], [], [0, 3], []]


def test_a_site_without_attributes_has_all_its_records() -> None:
    constraints = Constraints(np.zeros((3, 0), dtype=np.uint8), np.zeros(0, dtype=np.int64))
    assert constraints.form_trans_set().tolist() == [0, 1, 2]
    assert constraints.remaining == []


def changed(sites: list[Site], change) -> None:
    """Grow, with some messages put in place of what was sent."""

    class Lying(LocalSites):
        def _carry(self, begun) -> None:
            queue = [(sender, item) for sender, out in begun for item in out]
            while queue:
                sender, item = queue.pop(0)
                told = change(sender, from_bytes(item.data, "x"))
                out = self.programs[item.to].receive(sender, to_bytes(told))
                queue.extend((item.to, more) for more in out)

    Lying(sites).grow()


def test_a_site_stores_its_own_nodes_and_tokens_alone() -> None:
    sites = sites_of(weather(), dealt(4, 3), class_at=2)
    root = grown(sites)
    numbers = [number for site in sites for number in site.nodes]
    assert sorted(numbers) == list(range(1, 9))
    for site in sites:
        for node in site.nodes.values():
            if isinstance(node, Leaf):
                assert site.index == 2
                continue
            assert type(node) is Interior
            assert 0 <= node.attribute < site.table.bins.shape[1]
            assert len(node.children) == site.table.n_values[node.attribute]
            assert all(type(token) is Token and len(token) == 2 for token in node.children)
    assert root.site == 0
    # Written out, a part holds numbers and not one word of the domain.
    words = {word for day in DAYS for word in day} | set(WEATHER.names)
    for site in sites:
        written = json.dumps({n: [type(node).__name__, node] for n, node in site.nodes.items()})
        assert not [word for word in words if word in written]


def test_nothing_on_the_wire_names_an_attribute_or_a_value() -> None:
    wire = Wire()
    raw: list[bytes] = []

    def tap(sender: int, to: int, data: bytes) -> None:
        raw.append(data)
        wire(sender, to, data)

    sites = sites_of(weather(), PAPER, class_at=0)
    grown(sites, tap)
    words = {word for day in DAYS for word in day if len(word) > 3} | set(WEATHER.names)
    assert not [word for word in words if any(word.encode() in data for data in raw)]
    assert sum(site.meter.bytes for site in sites) == wire.bytes
    assert sum(site.meter.messages for site in sites) == len(wire.messages)


def test_a_stored_part_holds_no_record_and_still_answers() -> None:
    sites = sites_of(weather(), PAPER, class_at=0)
    root = grown(sites)
    stored = [pickle.dumps(site) for site in sites]
    again = [pickle.loads(data) for data in stored]
    assert all(site.table.n_records == 0 for site in again)
    table = weather()
    bins = [table.bins[:, group] for group in PAPER]
    expected = LocalSites(sites).classify(root, table.ids, bins)
    assert np.array_equal(LocalSites(again).classify(root, table.ids, bins), expected)
    assert joined_tree(again, root, WEATHER, PAPER) == joined_tree(sites, root, WEATHER, PAPER)


def test_two_runs_share_no_encrypted_element() -> None:
    wires = [Wire(), Wire()]
    for wire in wires:
        grown(sites_of(weather(), PAPER, class_at=0), wire)
    seen = [
        {
            blob[i : i + 32]
            for m in wire.of(PassSet)
            for blob in m.groups
            for i in range(0, len(blob), 32)
        }
        for wire in wires
    ]
    assert seen[0]
    assert not seen[0] & seen[1]


def test_seeded_runs_repeat() -> None:
    from hedgerow.protocols.sharing.integrate import keyed

    sent = []
    for _ in range(2):
        wire = Wire()
        sites = sites_of(weather(), PAPER, class_at=0, entropy=keyed(bytes(16)))
        grown(sites, wire)
        sent.append(wire.messages)
    assert sent[0] == sent[1]


@pytest.mark.parametrize("announced", [(2,), (3,), (2, 5), (0, 2)])
def test_a_site_that_lies_about_its_values_is_named(announced: tuple[int, ...]) -> None:
    def lie(sender: int, message: Message) -> Message:
        if isinstance(message, Announce) and sender == 1:
            return replace(message, values=announced)
        return message

    sites = sites_of(weather(), [[2, 0], [1, 3]], class_at=0)
    with pytest.raises(HedgerowError, match="site 1") as caught:
        changed(sites, lie)
    assert caught.value.code is Code.SITE_CONTRADICTS


@pytest.mark.parametrize("change", ["drop", "split", "repeat", "more"])
def test_a_site_that_brings_other_sets_than_it_announced_is_named(change: str) -> None:
    def lie(sender: int, message: Message) -> Message:
        if not isinstance(message, PassSet) or message.owner != 1 or message.layers != 1:
            return message
        groups = message.groups
        if len(groups) < 2:
            return message
        made = {
            "drop": groups[:-1] if len(groups) > 2 else (),
            "split": (*groups, b""),
            "repeat": (groups[0], groups[0], *groups[2:]),
            "more": (groups[0] * 9, *groups[1:]),
        }
        return replace(message, groups=made[change])

    with pytest.raises(HedgerowError, match="of site 1") as caught:
        changed(sites_of(weather(), PAPER, class_at=0), lie)
    assert caught.value.code is Code.SITE_CONTRADICTS


def test_sites_with_different_jobs_do_not_begin() -> None:
    table = weather()
    sites = sites_of(table, PAPER, class_at=0)
    other = SiteJob(2, 0, 2, max_depth=1)
    sites[1] = Site(1, other, SiteTable(table.bins[:, [2, 3]], np.array([2, 2]), None, table.ids))
    with pytest.raises(HedgerowError, match="another job at site") as caught:
        grown(sites)
    assert caught.value.code is Code.BAD_SITES


@pytest.mark.parametrize(
    "job",
    [
        {"n_sites": 1, "class_at": 0},
        {"n_sites": 2, "class_at": 2},
        {"n_sites": 2, "class_at": 0, "n_classes": 1},
        {"n_sites": 2, "class_at": None, "answers_to": "class site"},
    ],
)
def test_jobs_that_make_no_run_are_refused(job: dict) -> None:
    with pytest.raises(HedgerowError) as caught:
        SiteJob(**{"n_classes": 2, **job})
    assert caught.value.code is Code.BAD_SITES


def test_the_class_lies_where_the_job_says() -> None:
    table = weather()
    for index, labels in ((0, None), (1, table.target)):
        with pytest.raises(HedgerowError, match=f"site {index}") as caught:
            Site(
                index,
                SiteJob(2, 0, 2),
                SiteTable(table.bins, np.array([3, 3, 2, 2]), labels, table.ids),
            )
        assert caught.value.code is Code.BAD_SITES


def test_control_out_of_turn_is_refused() -> None:
    sites = sites_of(weather(), PAPER, class_at=0)
    early = (
        AskGain(9, 1, 0, ()),
        BringSet(9, NODE, 0, (0, 1)),
        PassSet(9, NODE, 1, (0, 1), 0, 1, (b"",)),
    )
    for message in early:
        with pytest.raises(HedgerowError, match="before its time") as caught:
            SiteProgram(sites[1]).receive(0, to_bytes(message))
        assert caught.value.code is Code.BAD_SITE_MESSAGE
    grown(sites)
    growing(sites)
    with pytest.raises(HedgerowError, match="without its gains"):
        SiteProgram(sites[1]).receive(0, to_bytes(Split(OWN[0], 50, 0, ())))


OWN = [(index + 1) << 48 | 999 for index in range(3)]
"""A call of each site that it has not used."""


@pytest.mark.parametrize(
    "message",
    [
        AskLeaf(OWN[1], 9, 1, (0,), 0),
        # A leaf that is there already, which the answer would overwrite.
        AskLeaf(OWN[1], 5, 1, (0,), 1),
        AskGain(OWN[1], 9, 1, (0,)),
        Split(OWN[1], 1, 0, ()),
        BringSet(OWN[1], NODE, 1, (0, 1)),
        CompareStart(OWN[1], 1, bytes(32)),
        Ready(3),
        Announce(2, bytes(32), (2, 2), 0, 14),
        SubtreeGrown(OWN[0], Token(1, 3), 9),
    ],
)
def test_after_the_tree_only_questions_are_heard(message: Message) -> None:
    sites = sites_of(weather(), PAPER, class_at=0)
    grown(sites)
    nodes, program = dict(sites[0].nodes), SiteProgram(sites[0])
    with pytest.raises(HedgerowError, match="after the tree was grown") as caught:
        program.receive(1, to_bytes(message))
    assert caught.value.code is Code.BAD_SITE_MESSAGE
    assert sites[0].nodes == nodes
    assert program.idle
    # Stored and read again, it is as deaf.
    with pytest.raises(HedgerowError, match="after the tree was grown"):
        SiteProgram(pickle.loads(pickle.dumps(sites[0]))).receive(1, to_bytes(message))


@pytest.mark.parametrize(
    ("message", "found"),
    [
        (AskLeaf(OWN[1], 1, 0, (), 1), "out of turn"),
        (AskLeaf(OWN[1], 60, 1, (0,), 1), "out of turn"),
        (AskLeaf(OWN[1], 9, 4, (0, 1), 1), "out of turn"),
        (AskLeaf(OWN[1], 9, 1, (0,), 2), "out of turn"),
        (AskLeaf(OWN[1], 9, 5, (0, 1), 1), "cannot be"),
        (AskLeaf(OWN[1], 9, 1, (), 1), "cannot be"),
        (AskLeaf(OWN[1], 9, 1, (0, 1), 1), "cannot be"),
        (AskLeaf(OWN[1], 9, 2, (1, 0), 1), "cannot be"),
        (AskGain(OWN[1], 1, 0, ()), "out of turn"),
        (AskGain(OWN[1], 2**64 - 1, 1, (0,)), "cannot be"),
        (AskGain(OWN[1], 68, 1, (0,)), "cannot be"),
        (AskGain(OWN[1], 9, 4, (0,)), "cannot be"),
        (Split(OWN[1], 6, 1, (0,)), "without its gains"),
        (AskGain(OWN[0], 9, 1, (0,)), "not its own"),
        (BringSet(OWN[0], NODE, 1, (0, 1)), "not its own"),
        (CompareStart(OWN[0], 1, bytes(32)), "not its own"),
        (Announce(9, bytes(32), (2, 2), 0, 14), "not its own"),
        (Ready(9), "not its own"),
    ],
)
def test_nodes_and_calls_that_cannot_be_are_refused(message: Message, found: str) -> None:
    sites = sites_of(weather(), PAPER, class_at=0)
    grown(sites)
    growing(sites)
    sites[0].distributions = {0: np.array([5, 9]), 1: np.array([3, 2])}
    with pytest.raises(HedgerowError, match=found) as caught:
        SiteProgram(sites[0]).receive(1, to_bytes(message))
    assert caught.value.code is Code.BAD_SITE_MESSAGE


def test_a_subtree_beyond_all_nodes_is_refused() -> None:
    def lie(sender: int, message: Message) -> Message:
        return replace(message, following=69) if isinstance(message, SubtreeGrown) else message

    with pytest.raises(HedgerowError, match="the subtree S2L2") as caught:
        changed(sites_of(weather(), PAPER, class_at=0), lie)
    assert caught.value.code is Code.BAD_SITE_MESSAGE


@pytest.mark.parametrize("change", [{"number": 3}, {"depth": 2}, {"constrained": (0, 1)}])
def test_control_goes_to_the_node_that_gains_were_asked_for(change: dict) -> None:
    def lie(sender: int, message: Message) -> Message:
        return replace(message, **change) if isinstance(message, Split) else message

    with pytest.raises(HedgerowError, match="without its gains"):
        changed(sites_of(weather(), PAPER, class_at=0), lie)


def test_early_messages_do_not_pile_up() -> None:
    sites = sites_of(weather(), PAPER, class_at=0)
    grown(sites)
    growing(sites)
    program = SiteProgram(sites[1])
    program.receive(0, to_bytes(CompareStart(OWN[0], 0, bytes(32))))
    for call in (OWN[0], OWN[0] + 1):
        with pytest.raises(HedgerowError, match="nobody waits for"):
            program.receive(0, to_bytes(CompareStart(call, 0, bytes(32))))


@pytest.mark.parametrize("align", [False, True])
def test_records_are_brought_for_aligning_alone(align: bool) -> None:
    sites = sites_of(weather(), PAPER, class_at=0, align=align)
    grown(sites)
    # After the start, all records under one more key would tell how they intersect.
    for message in (BringSet(9, RECORDS, 0, (0, 1)), Common(1, 0, b"")):
        with pytest.raises(HedgerowError, match="out of its time"):
            SiteProgram(sites[1]).receive(0, to_bytes(message))


@pytest.mark.parametrize(
    ("message", "found"),
    [
        (BringSet(9, NODE, 0, (0, 1, 7)), "not in this run"),
        (AskGain(9, 1, 0, (7,)), "not in this run"),
        (BringSet(OWN[0], NODE, 0, (0,)), "a request to the sites"),
        (BringSet(OWN[0], NODE, 0, (0, 1, 1)), "a request to the sites"),
        (BringSet(OWN[0], 5, 0, (0, 1)), "a request to the sites"),
    ],
)
def test_requests_to_other_sites_are_refused(message: Message, found: str) -> None:
    sites = sites_of(weather(), PAPER, class_at=0)
    grown(sites)
    growing(sites)
    with pytest.raises(HedgerowError, match=found) as caught:
        SiteProgram(sites[1]).receive(0, to_bytes(message))
    assert caught.value.code is Code.BAD_SITE_MESSAGE
