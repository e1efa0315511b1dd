"""What each site learned is what it received and was declared; noise and what it costs."""

from collections import Counter, defaultdict

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.privacy import Ledger, NoiseSource
from hedgerow.protocols.vertical_id3 import leakage as named
from hedgerow.protocols.vertical_id3 import messages as wire
from hedgerow.protocols.vertical_id3 import node as ppid3_node
from hedgerow.protocols.vertical_id3.cardinality import ASKED, sizes_name, subsets_name
from hedgerow.protocols.vertical_id3.leakage import CountNoise
from hedgerow.protocols.vertical_id3.plan import Session
from hedgerow.protocols.vertical_id3.site import Leaf, Site, SiteTable
from reproduce.paper_002.local_sites import LocalSites
from tests.protocols.vertical_id3.ppid3_runs import (
    PAPER,
    ManyKeys,
    Wire,
    dealt,
    grown,
    sites_of,
    weather,
)


def received(tap: Wire, site: int) -> Counter[str]:
    """Name what a site received, from the bytes on the wire alone."""
    names: Counter[str] = Counter()
    fixed = {
        wire.Announce: named.ANNOUNCED,
        wire.Sum: named.SUM,
        wire.CompareStart: named.COMPARISON,
        wire.CompareReply: named.COMPARISON,
        wire.AskLeaf: named.PLACE,
        wire.AskGain: named.PLACE,
        wire.Split: named.PLACE,
        wire.LeafReply: named.TOKEN,
        wire.SubtreeGrown: named.TOKEN,
        wire.Over: named.TOKEN,
        wire.GainReply: named.GAIN,
        wire.BringSet: ASKED,
        wire.Classify: named.INSTANCES,
        wire.Answers: named.ANSWER,
    }
    # That all is done says nothing but the number of a question of one's own.
    silent = (wire.Ready, wire.AnswersKept)
    groups: dict[int, dict[int, int]] = defaultdict(dict)
    rings: dict[int, tuple[int, ...]] = {}
    for _, to, message in tap.messages:
        if isinstance(message, wire.PassSet):
            groups[message.call][message.owner] = len(message.groups)
            if message.counter == site:
                rings[message.call] = message.ring
            if to == site and message.layers < len(message.ring):
                names[sizes_name(len(message.groups))] += 1
        elif to == site and isinstance(message, wire.Common):
            names[named.COMMON if message.owner == site else named.MARKS] += 1
        elif to == site and not isinstance(message, silent):
            # Instances count, in whatever messages they come.
            names[fixed[type(message)]] += len(getattr(message, "rows", (0,)))
            names[named.REMAIN] += isinstance(message, wire.CompareReply)
            names[named.MUST] += isinstance(message, wire.AskLeaf)
            names[named.FOLLOWING] += isinstance(message, wire.SubtreeGrown)
    for call, ring in rings.items():
        names[subsets_name([groups[call][owner] for owner in ring])] += 1
    return +names


def learned(site: Site) -> Counter[str]:
    names: Counter[str] = Counter()
    for row in site.what_was_learned():
        names[row["name"]] += row["times"]
    return names


@pytest.mark.parametrize(
    ("groups", "class_at", "align"),
    [
        (PAPER, 0, False),
        (dealt(4, 3), 2, True),
        (dealt(4, 3), None, False),
        (dealt(4, 4), 1, False),
    ],
)
def test_what_was_learned_is_what_was_received(groups, class_at, align) -> None:
    tap = Wire()
    sites = sites_of(weather(), groups, class_at, align=align)
    grown(sites, tap)
    for site in sites:
        assert learned(site) == received(tap, site.index)


def test_questions_are_learned_too() -> None:
    sites = sites_of(weather(), PAPER, class_at=0)
    root = grown(sites)
    before, tap, table = [learned(site) for site in sites], Wire(), weather()
    bins = [table.bins[:, g] for g in PAPER]
    LocalSites(sites, tap).classify(root, table.ids, bins, asker=1)
    # The sunny and the rainy days; and of all of them the distributions, being the asker.
    expected = Counter({named.INSTANCES: 10, named.ANSWER: 14})
    assert learned(sites[1]) - before[1] == received(tap, 1) == expected
    values = {row["name"]: row["values"] for row in sites[1].what_was_learned()}
    assert (values[named.INSTANCES], values[named.ANSWER]) == (10 * 4, 14 * 2)
    # All days come to the root; those that come back to its leaves come here a second time.
    assert (learned(sites[0]) - before[0])[named.INSTANCES] == 14 + 14


def test_what_the_class_site_keeps_tells_the_asker_nothing() -> None:
    table = weather()
    sites = sites_of(table, [[0, 1, 2, 3], []], class_at=0, answers_to="class site")
    root = grown(sites)
    before, tap = learned(sites[1]), Wire()
    bins = [table.bins, table.bins[:, :0]]
    LocalSites(sites, tap).classify(root, table.ids, bins, asker=1)
    assert learned(sites[1]) == before
    assert [type(m) for _, to, m in tap.messages if to == 1] == [wire.AnswersKept]


def test_the_table_of_the_weather_run() -> None:
    sites = sites_of(weather(), PAPER, class_at=0)
    grown(sites)
    tables = [
        {row["name"]: (row["times"], row["values"]) for row in site.what_was_learned()}
        for site in sites
    ]
    # The class site begins; it runs the root and the three children of outlook, and so sees two
    # tokens of nodes elsewhere and the gains of the other site at three nodes.
    assert tables[0][named.TOKEN] == (2, 4)
    assert tables[0][named.GAIN] == (3, 3)
    assert tables[0][named.REMAIN] == (4, 4)
    # The other site runs the four leaves below its two nodes, and is told the root at the end.
    assert tables[1][named.REMAIN] == (4, 4)
    assert tables[1][named.TOKEN] == (5, 10)
    assert named.GAIN not in tables[1]
    # Humidity and wind at the root, the two below each value of outlook: 2 values by 2 classes.
    assert tables[1][subsets_name((2, 2))] == (6, 6 * 9)
    # The class site counts three nodes' temperatures with the other site's constraints: none, for
    # that site has none above them. Class counts of the four lowest leaves need both.
    assert tables[0][subsets_name((2, 1))] == (4, 4 * 6)


def test_nobody_has_a_finite_epsilon_inside() -> None:
    sites = sites_of(weather(), PAPER, class_at=0)
    grown(sites)
    for site in sites:
        assert site.ledger.total(f"site {site.index}").epsilon == float("inf")
        # Nor has whoever is shown the tree.
        assert site.ledger.total("public").epsilon == float("inf")


def test_an_undeclared_value_is_refused() -> None:
    site = sites_of(weather(), PAPER, class_at=0)[0]
    for name, shape, code in (
        ("ages", (), Code.UNDECLARED_OPENING),
        (named.ANNOUNCED, (3,), Code.WRONG_OPENING_SHAPE),
    ):
        with pytest.raises(HedgerowError) as caught:
            site.learn(name, shape)
        assert caught.value.code is code


def test_groups_that_a_site_may_bring() -> None:
    sites = sites_of(weather(), PAPER, class_at=0)
    grown(sites)
    job, said = sites[0].job, sites[0].announced
    assert named.possible_groups(job, 0, said[0]) == {2, 6}
    assert named.possible_groups(job, 1, said[1]) == {1, 2}
    # outlook, temperature, humidity, wind: 1 + 3 + 9 + 18 + 36 nodes at most.
    assert named.most_nodes(job, said) == 67


def test_a_counting_site_with_many_keys_learns_every_class() -> None:
    """What the ring does not prevent, and the documentation says first: 14 of 14 classes."""
    table, tap, cipher = weather(), Wire(), ManyKeys()
    sites = sites_of(table, PAPER, class_at=0)
    sites[1] = Site(1, sites[1].job, sites[1].table, cipher=cipher)
    # It reads the classes before it counts; its own count comes to nothing and ends its run.
    with pytest.raises(HedgerowError, match="0 records in common of 14") as caught:
        grown(sites, tap)
    assert caught.value.code is Code.IDS_DO_NOT_ALIGN
    passes = [message for message in tap.of(wire.PassSet, to=1) if message.counter == 1]
    call = min(message.call for message in passes)
    own, theirs = (
        [message for message in passes if (message.call, message.owner) == (call, owner)]
        for owner in (1, 0)
    )
    read = np.full(14, -1)
    for label, group in enumerate(theirs[0].groups):
        read[cipher.recognised(own[0].groups, group)] = label
    # Classes come in an order that the class site drew.
    assert read.tolist() in (table.target.tolist(), (1 - table.target).tolist())


def test_a_counting_site_with_a_group_for_each_record_learns_every_class(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table, seen = weather(), []
    sites = sites_of(table, PAPER, class_at=0)
    days = SiteTable(np.arange(14, dtype=np.uint8)[:, None], np.array([14]), None, table.ids)
    sites[1] = Site(1, sites[1].job, days)
    monkeypatch.setattr(ppid3_node, "information_gain", lambda counts: seen.append(counts) or 0.0)
    grown(sites)
    read = next(counts for counts in seen if len(counts) == 14).argmax(axis=1)
    assert read.tolist() in (table.target.tolist(), (1 - table.target).tolist())


def test_tables_of_the_worst_case() -> None:
    # Two levels of splits with four and three attributes left, class counts of three levels.
    assert CountNoise(1.0, 2, 4, 2, 3).tables == 3 + 4 + 3
    # No path is longer than there are attributes.
    assert CountNoise(1.0, 9, 2, 2, 3).tables == 3 + 2 + 1


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_the_charges_add_up_to_epsilon(depth: int) -> None:
    noise = CountNoise(1.5, depth, 4, 2, 3)
    ledger = Ledger()
    ledger.charge(*noise.releases())
    total = ledger.total("public")
    assert total.epsilon == pytest.approx(1.5, rel=1e-12)
    assert total.epsilon <= 1.5
    assert total.delta < 1e-15
    assert sum(release.times for release in noise.releases()) == noise.tables


def test_noise_has_its_law(chi_square: object) -> None:
    noise = CountNoise(10.0, 1, 4, 2, 3)
    n, base = 20_000, 50
    drawn = noise(np.full(n, base), NoiseSource.insecure_seeded(4)) - base
    values = np.arange(-20, 21)
    counts = np.array([(drawn == value).sum() for value in values])
    law = noise.mechanism.law(values)
    assert counts.sum() == n
    assert chi_square(counts, law / law.sum()) > 1e-3
    assert noise(np.zeros(1000, dtype=np.int64), NoiseSource.insecure_seeded(4)).min() == 0


def private(seed: int, epsilon: float):
    source = NoiseSource.insecure_seeded(seed)
    sites = sites_of(weather(), PAPER, class_at=0, epsilon=epsilon, max_depth=2, source=source)
    root = grown(sites)
    return sites, root


def test_much_noise_changes_the_tree_and_little_does_not() -> None:
    exact = sites_of(weather(), PAPER, class_at=0, max_depth=2)
    grown(exact)
    loud = {str(private(seed, 0.1)[0][0].nodes) for seed in range(4)}
    assert len(loud) == 4
    quiet, _ = private(0, 5000.0)
    assert [site.nodes for site in quiet] == [site.nodes for site in exact]


def test_leaves_hold_noisy_counts_only() -> None:
    leaves = [
        node.counts
        for seed in range(6)
        for site in private(seed, 1.0)[0]
        for node in site.nodes.values()
        if isinstance(node, Leaf)
    ]
    assert min(min(counts) for counts in leaves) == 0
    totals = np.array([sum(counts) for counts in leaves])
    # Exact leaves would hold the fourteen days at most; the noise of a table has scale 10.
    assert totals.max() > 14


def test_it_holds_for_the_public_and_for_no_site() -> None:
    sites, _ = private(0, 2.0)
    for site in sites:
        assert site.ledger.formal_total("public").epsilon == pytest.approx(2.0)
        assert site.ledger.formal_total(f"site {site.index}").epsilon == float("inf")
        assert [mark.reason for mark in site.ledger.not_private] == ["the noise was seeded"]
    whole = Ledger()
    whole.charge(*Session(sites[0].job, sites[0].announced, secret=False).releases())
    assert whole.total("site 1").epsilon == float("inf")
    assert whole.total("public").epsilon == pytest.approx(2.0)


def test_an_epsilon_too_small_to_divide_is_refused() -> None:
    with pytest.raises(HedgerowError) as caught:
        _ = CountNoise(5e-324, 2, 4, 2, 3).mechanism
    assert caught.value.code is Code.BAD_EPSILON
