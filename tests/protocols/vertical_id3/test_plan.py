"""The public facts of a run: shapes and bindings of parts, and what is learned on secret counts."""

from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.privacy import Ledger, Relation
from hedgerow.protocols.vertical_id3 import leakage as named
from hedgerow.protocols.vertical_id3 import messages as wire
from hedgerow.protocols.vertical_id3 import plan as declared
from hedgerow.protocols.vertical_id3.cardinality import ASKED
from hedgerow.protocols.vertical_id3.job import SiteJob
from hedgerow.protocols.vertical_id3.leakage import Announced
from hedgerow.protocols.vertical_id3.messages import BEST, SIZES
from hedgerow.protocols.vertical_id3.node import information_gain
from hedgerow.protocols.vertical_id3.plan import Session, gain_number
from hedgerow.protocols.vertical_id3.run import ask_sites
from hedgerow.protocols.vertical_id3.site import Site
from hedgerow.secure.ring import Z16, Z32, Z64
from hedgerow.tables import Encoded
from tests.protocols.vertical_id3.ppid3_runs import PAPER, Wire, dealt, weather
from tests.protocols.vertical_id3.secret.secret_runs import secret, tables_of


def test_gains_that_differ_at_all_keep_their_order() -> None:
    rng = np.random.default_rng(0)
    gains = np.concatenate([[0.0, 5e-324, 1.0, 16.0], rng.random(500), rng.random(200) * 1e-17])
    gains = np.unique(np.concatenate([gains, np.nextafter(gains, 20)]))
    numbers = [gain_number(float(gain)) for gain in gains]
    assert all(a < b for a, b in pairwise(numbers))
    assert gain_number(-1.0) == 0 < gain_number(0.0) == gain_number(-0.0) == 1
    # The difference of any two has a sign in 64 bits.
    assert numbers[-1] < 2**63


def test_gains_of_real_tables_are_in_range() -> None:
    rng = np.random.default_rng(1)
    tables = rng.integers(0, 30, (200, 4, 3))
    gains = [information_gain(table) for table in tables]
    assert np.argsort(gains).tolist() == np.argsort([gain_number(gain) for gain in gains]).tolist()


def session(records: int = 14, **job: object) -> Session:
    public = SiteJob(2, 0, 2, **job)
    said = {0: Announced((3, 3), 2, records), 1: Announced((2, 2), 0, records)}
    return Session(public, said, secret=True)


def test_the_smallest_ring_that_holds_the_counts() -> None:
    assert [session(n).ring for n in (14, 65_535, 65_536)] == [Z16, Z16, Z32]
    # Noise of scale 10 stays below 2^10 or so; of scale 10^6 it does not.
    loud = session(14, epsilon=1.0, max_depth=2)
    assert loud.noise is not None
    assert loud.noise.tables == 10
    assert loud.ring == Z16
    assert session(14, epsilon=1e-5, max_depth=2).ring == Z32
    assert session(14, epsilon=1e-9, max_depth=2).ring == Z64


def test_what_a_site_shares() -> None:
    # Bits of 0 to 3, and of 0 to 4; one number.
    assert session(5).shape_of_part(SIZES, 1) == ((1, 5), None)
    assert session(5).shape_of_part(SIZES, 3) == ((2, 5), None)
    assert session(5).shape_of_part(SIZES, 4) == ((3, 5), None)
    assert session(5).shape_of_part(BEST, 1) == ((1,), Z64)


def test_a_context_holds_everything() -> None:
    base = session().context(9, SIZES, 0, (0, 1))
    others = [
        replace(base, call=8).of(1, 2, 0),
        replace(base, what=BEST).of(1, 2, 0),
        replace(base, counter=1).of(1, 2, 0),
        replace(base, ring=(0, 1, 2)).of(1, 2, 0),
        session(15).context(9, SIZES, 0, (0, 1)).of(1, 2, 0),
        session(max_depth=3).context(9, SIZES, 0, (0, 1)).of(1, 2, 0),
        base.of(0, 2, 0),
        base.of(1, 3, 0),
        base.of(1, 2, 1),
    ]
    assert len({base.of(1, 2, 0), *others}) == 1 + len(others)


@pytest.mark.parametrize("class_at", [0, None])
def test_what_tables_announce_is_what_sites_do(class_at: int | None) -> None:
    run = secret(weather(), PAPER, class_at, engine="clear")
    job, classes = run.sites[0].job, 2 if class_at is None else 0
    tables = enumerate(tables_of(weather(), PAPER, class_at))
    found = {site: table.announced(job, site) for site, table in tables}
    assert found == {0: Announced((3, 3), 2, 14), 1: Announced((2, 2), classes, 14)}
    assert all(site.announced == found for site in run.sites)


FIXED = {
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
    wire.BringSet: ASKED,
    wire.SealedSet: declared.SEALED,
}


def received(tap: Wire, site: int, n_sites: int, class_at: int | None) -> Counter[str]:
    """Name what a site received, from the bytes on the wire alone."""
    names: Counter[str] = Counter()
    questions = {}
    halves: dict[int, list[int]] = defaultdict(list)
    for sender, to, message in tap.messages:
        if to == n_sites and isinstance(message, wire.AskServers | wire.BeginServers):
            questions[message.call] = message
        if to != site or isinstance(message, wire.Ready):
            continue
        if isinstance(message, wire.Half):
            halves[message.call].append(sender - n_sites)
            continue
        names[FIXED[type(message)]] += 1
        names[named.REMAIN] += isinstance(message, wire.CompareReply)
        names[named.MUST] += isinstance(message, wire.AskLeaf)
        names[named.FOLLOWING] += isinstance(message, wire.SubtreeGrown)
    for call, senders in halves.items():
        assert sorted(senders) == [0, 1]
        question = questions[call]
        assert question.counter == site
        if isinstance(question, wire.BeginServers):
            names[declared.SAME_IDS] += 1
        elif question.what == wire.BEST:
            names[declared.WINNER] += 1
        else:
            own = question.groups[question.ring.index(site)]
            apart = class_at in question.ring and class_at != site
            names[declared.sizes_of((own, 2) if apart else (own,))] += 1
    return +names


def learned(site: Site) -> Counter[str]:
    names: Counter[str] = Counter()
    for row in site.what_was_learned():
        names[row["name"]] += row["times"]
    return names


@pytest.mark.parametrize("epsilon", [None, 20.0])
@pytest.mark.parametrize(
    ("groups", "class_at"), [(PAPER, 0), (dealt(4, 3), 2), (dealt(4, 3), None), (dealt(4, 4), 1)]
)
def test_what_was_learned_is_what_was_received(groups, class_at, epsilon) -> None:
    tap = Wire()
    run = secret(weather(), groups, class_at, tap=tap, epsilon=epsilon, max_depth=3)
    for site in run.sites:
        assert learned(site) == received(tap, site.index, len(groups), class_at)
    questions = tap.of(wire.AskServers, to=len(groups))
    assert {row["name"]: row["times"] for row in run.learned} == {
        declared.QUESTION: 1 + len(questions),
        named.ANNOUNCED: 1,
    }


def test_neither_gains_nor_sub_intersections() -> None:
    tap = Wire()
    run = secret(weather(), dealt(4, 3), 2, tap=tap)
    assert not tap.of(wire.GainReply)
    assert not tap.of(wire.PassSet)
    for site in run.sites:
        names = set(learned(site))
        assert named.GAIN not in names
        assert not any("sub-intersections" in name or "encrypted sets" in name for name in names)
        openings = {opening.name for leakage in site.leakages for opening in leakage.openings}
        assert named.GAIN not in openings
        assert not any("sub-intersections" in name for name in openings)


def test_the_table_of_the_weather_run() -> None:
    run = secret(weather(), PAPER, 0)
    tables = [
        {row["name"]: (row["times"], row["values"]) for row in site.what_was_learned()}
        for site in run.sites
    ]
    # Humidity and wind at the root and below two values of outlook, two values by two classes.
    assert tables[1][declared.sizes_of((2, 2))] == (6, 24)
    # Class counts of the four lowest leaves need both sites; all others the class site alone.
    assert tables[0][declared.sizes_of((2,))] == (4, 8)
    assert tables[0][declared.WINNER] == (3, 3)
    assert declared.WINNER not in tables[1]


def shapes(tap: Wire) -> list[tuple[int, int, str, int]]:
    return [
        (sender, to, type(message).__name__, len(wire.to_bytes(message)))
        for sender, to, message in tap.messages
    ]


def test_nothing_on_the_wire_depends_on_counts_but_the_tree() -> None:
    """Another table with the same tree: every message has the same size, in the same order."""
    table = weather()
    # Days with weak and strong wind on overcast days change places: other counts, same splits.
    bins = table.bins.copy(order="F")
    overcast = np.flatnonzero(bins[:, 0] == 1)
    bins[overcast, 3] = bins[np.roll(overcast, 1), 3]
    bins[overcast, 1] = 0
    other = Encoded(table.domain, bins, table.target, table.present, table.ids)
    taps = [Wire(), Wire()]
    runs = [secret(one, PAPER, 0, tap=tap) for one, tap in zip((table, other), taps, strict=True)]
    assert [site.nodes for site in runs[0].sites] == [site.nodes for site in runs[1].sites]
    assert shapes(taps[0]) == shapes(taps[1])
    assert runs[0].meter.payload == runs[1].meter.payload


def test_an_undeclared_value_is_refused() -> None:
    run = secret(weather(), PAPER, 0)
    for name, shape, code in (
        (named.GAIN, (), Code.UNDECLARED_OPENING),
        (declared.sizes_of((3, 2)), (3, 2), Code.UNDECLARED_OPENING),
        (declared.WINNER, (2,), Code.WRONG_OPENING_SHAPE),
    ):
        with pytest.raises(HedgerowError) as caught:
            run.sites[0].learn(name, shape)
        assert caught.value.code is code


def test_without_noise_nobody_inside_has_a_finite_epsilon() -> None:
    run = secret(weather(), PAPER, 0)
    for site in run.sites:
        assert site.ledger.total(f"site {site.index}").epsilon == float("inf")
    assert run.ledger.total("server 0").epsilon == float("inf")


@pytest.mark.parametrize("engine", ["clear", "simulate"])
def test_noise_on_shares_holds_towards_the_sites_for_what_records_say(engine: str) -> None:
    run = secret(weather(), PAPER, 0, engine=engine, epsilon=2.0, max_depth=2)
    ledgers = [run.ledger, *(site.ledger for site in run.sites)]
    for ledger in ledgers:
        for who in ("public", "site 0", "site 1", "server 2"):
            total = ledger.formal_total(who)
            assert total.epsilon == pytest.approx(2.0)
            assert 0 < total.delta < 2**-50
            assert ledger.formal_total(who, Relation.REPLACE).epsilon == pytest.approx(4.0)
        assert ledger.total("public").epsilon == pytest.approx(2.0)
        # Whether a record is there is no secret of the sites, nor how many there are.
        for who in ("site 0", "site 1", "server 2"):
            assert ledger.total(who).epsilon == float("inf")


@pytest.mark.parametrize("answers_to", ["asker", "class site"])
def test_questions_about_records_are_exact_whatever_the_noise(answers_to: str) -> None:
    table = weather()
    run = secret(
        *(table, PAPER, 0), engine="clear", epsilon=20.0, max_depth=2, answers_to=answers_to
    )
    assert all(s.ledger.formal_total(f"site {s.index}").epsilon < 21 for s in run.sites)
    bins = [table.bins[:, group] for group in PAPER]
    ask_sites(run.sites, table.ids, bins, asker=1)
    for site in run.sites:
        of_questions = set(learned(site)) & set(named.OF_QUESTIONS)
        for relation in Relation:
            total = site.ledger.formal_total(f"site {site.index}", relation)
            assert (total.epsilon == float("inf")) == bool(of_questions)
        assert site.ledger.total("public").epsilon == pytest.approx(20.0)
    # The class site sees at least the instances that come to its leaves, by their ids.
    assert named.INSTANCES in learned(run.sites[0])
    assert (named.ANSWER in learned(run.sites[1])) == (answers_to == "asker")


def test_the_ledger_of_a_whole_run() -> None:
    said = {0: Announced((3, 3), 2, 14), 1: Announced((2, 2), 0, 14)}
    exact, noisy = Ledger(), Ledger()
    exact.charge(*Session(SiteJob(2, 0, 2), said, secret=True).releases())
    assert exact.total("site 1").epsilon == float("inf")
    assert exact.total("public").epsilon == float("inf")
    job = SiteJob(2, 0, 2, epsilon=1.5, max_depth=2)
    noisy.charge(*Session(job, said, secret=True).releases())
    assert noisy.total("public").epsilon == pytest.approx(1.5)
    declared.mark_secret(noisy, job)
    assert noisy.total("public").epsilon == pytest.approx(1.5)
    assert noisy.total("site 1").epsilon == float("inf")
    pair = noisy.coalition(["server 0", "server 1"])
    assert pair.epsilon == float("inf")
