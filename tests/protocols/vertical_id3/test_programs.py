"""The programs of vertical ID3 under kills: nothing is counted twice, and the tree is the same.

Members are cut off before and after every durable step that any of them takes. What leaves a member
is recorded on the way: over all attempts there is one message at each place between any two.
"""

import copy
import struct
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count, repeat
from typing import Any

import numpy as np
import pytest

from hedgerow.errors import Code, HedgerowError
from hedgerow.net.frames import mail_digest
from hedgerow.net.mesh import Mesh
from hedgerow.net.network import Network
from hedgerow.privacy import Ledger, NoiseSource
from hedgerow.protocols.contract import Context
from hedgerow.protocols.vertical_id3.job import SiteJob
from hedgerow.protocols.vertical_id3.leakage import ANSWER, INSTANCES
from hedgerow.protocols.vertical_id3.messages import OVER, Over, Token, to_bytes
from hedgerow.protocols.vertical_id3.plan import Session
from hedgerow.protocols.vertical_id3.programs import (
    HEARD,
    KEY,
    MESSAGE,
    AnsweringPart,
    Correspondence,
    CountRecord,
    Question,
    classify,
    program_of,
)
from hedgerow.protocols.vertical_id3.run import (
    joined_tree,
    members_of,
    run_vertical,
    vertical_member,
)
from hedgerow.protocols.vertical_id3.site import Site, SiteTable
from hedgerow.tables import Encoded
from hedgerow.trees import grow_id3
from tests.net.faults import Fault, run_spoilt
from tests.protocols.disks import Disk, KilledError, kills
from tests.protocols.vertical_id3.ppid3_runs import PAPER, dealt, weather
from tests.protocols.vertical_id3.secret.secret_runs import tables_of

Place = tuple[str, str, int]
SMALL = weather().select([0, 2])
"""Outlook and humidity."""


class Watched(Mesh):
    """A mesh that notes what goes from whom to whom, by its place over all attempts."""

    def __init__(self, members: Sequence[str], left: dict[Place, set[bytes]]) -> None:
        super().__init__(len(members), timeout=60.0)
        self.members, self.left = members, left
        self.following: dict[tuple[int, int], int] = {}

    def send(self, pair: tuple[int, int], digest: bytes, content: Any) -> None:
        if digest == mail_digest(HEARD):
            # Where the receiver of this goes on.
            self.following[pair[::-1]] = struct.unpack("<Q", content)[0]
        elif digest == mail_digest(MESSAGE):
            place = self.following[pair]
            self.following[pair] += 1
            self.left[self.members[pair[0]], self.members[pair[1]], place].add(content)
        super().send(pair, digest, content)


class Town:
    """Members of a run and what they have kept; attempts are made with it."""

    def __init__(self, job: SiteJob, tables: Sequence[SiteTable], *, secret: bool = False) -> None:
        self.plan, self.tables = Session(job, {}, secret), tables
        self.members = members_of(self.plan)
        self.disks: dict[str, Disk] = defaultdict(Disk)
        self.left: dict[Place, set[bytes]] = defaultdict(set)
        # As do the servers', so that a first attempt has as many steps in every town.
        self.seeds: Iterator[int] | None = count(5) if secret else None
        self.seed: int | None = None
        self.programs: dict[str, Callable[[Context], Any]] = {}
        # They go on where they were, as the system's do: what is drawn again differs.
        self.sources = [NoiseSource.insecure_seeded(i) for i in range(len(tables))]

    @property
    def sites(self) -> tuple[str, ...]:
        return self.members[-len(self.tables) :]

    def context(self, network: Network) -> Context:
        (party,) = network.local
        name = self.members[party]
        more: dict[str, Any] = {"memory": self.disks[name], "seed": self.seed}
        if name in self.sites:
            at = self.sites.index(name)
            more |= {"table": self.tables[at], "source": self.sources[at]}
        return Context(network, self.members, self.plan, **more)

    def attend(self, network: Network) -> Any:
        context = self.context(network)
        program = program_of(self.plan, context.party)
        return self.programs.get(self.members[context.party], program)(context)

    def attempt(self) -> Any:
        """Run all members, each at an endpoint of its own; return what they have at the end."""
        self.seed = None if self.seeds is None else next(self.seeds)
        mesh = Watched(self.members, self.left)
        seats = [(party,) for party in range(len(self.members))]
        return mesh.run(dict.fromkeys(seats, self.attend))

    def killed(self, member: str, step: int, when: str) -> bool:
        """Make an attempt in which a member is killed; whether it came to that."""
        self.disks[member].kill = (self.disks[member].steps + step, when)
        try:
            self.attempt()
        except KilledError:
            return True
        finally:
            self.disks[member].kill = None
        return False

    def check(self) -> None:
        """One message at each place, and no place is left out."""
        for at, found in self.left.items():
            assert len(found) == 1, at
        ends: dict[tuple[str, str], int] = defaultdict(int)
        for sender, to, place in self.left:
            ends[sender, to] = max(ends[sender, to], place + 1)
        assert sum(ends.values()) == len(self.left)


def grown_of(ends: Sequence[Any]) -> list[dict[str, Any]]:
    """Return what members have at the end, as plain data."""
    found = []
    for end in ends:
        if isinstance(end, CountRecord):
            found.append({"ledger": end.ledger.to_json(), "leakage": end.leakage.to_json()})
            continue
        state = end.to_state()
        found.append(state | {"ids": state["ids"].tolist(), "learned": end.what_was_learned()})
    return found


def town(kind: str) -> Town:
    secret = kind.startswith("secret")
    noise = {"epsilon": 20.0} if kind.endswith("noise") else {}
    depth = 1 if secret else 2
    job = SiteJob(2, 0, 2, max_depth=depth, align=kind == "aligned", **noise)
    return Town(job, tables_of(SMALL, [[0], [1]], 0), secret=secret)


def seeded(kind: str) -> Town:
    """Return a town whose servers draw the same in every attempt."""
    made = town(kind)
    if kind.startswith("secret"):
        made.seeds = repeat(5)
    return made


# The ring without noise goes on behind the alignment.
@pytest.mark.parametrize(
    "kind",
    [pytest.param("aligned", marks=pytest.mark.slow), "ring with noise", "secret with noise"],
)
def test_wherever_a_member_is_killed_the_tree_is_the_same(kind: str) -> None:
    """And so is what was learned and charged, at every member, and what was sent."""
    clean = seeded(kind)
    expected = grown_of(clean.attempt())
    clean.check()
    members = [name for name in clean.members if name != "server 2"]
    places = list(kills(clean.disks, members))
    assert len(places) > 50
    for place in places:
        again = seeded(kind)
        assert again.killed(*place), place
        again.sources = seeded(kind).sources
        assert grown_of(again.attempt()) == expected, place
        again.check()
        assert again.left == clean.left, place


@pytest.mark.parametrize("kind", ["ring with noise", "secret with noise"])
def test_wherever_members_are_killed_nothing_is_drawn_twice(kind: str) -> None:
    """Again and again, and with noise that would differ if it were drawn again."""
    clean = town(kind)
    clean.attempt()
    first, second = clean.sites
    for name, step, when in list(kills(clean.disks, [first]))[::3]:
        again = town(kind)
        assert again.killed(name, step, when), step
        # In the second attempt steps are counted from where the first has ended.
        again.killed(second, step % 3, "before")
        again.killed(clean.members[0], 0, "after")
        ends = again.attempt()
        again.check()
        assert len({end.root for end in ends if isinstance(end, Site)}) == 1


def test_without_noise_the_tree_is_that_of_id3() -> None:
    for kind in ("ring", "aligned", "secret"):
        one = town(kind)
        assert one.killed("site 1", 9, "after")
        sites = [end for end in one.attempt() if isinstance(end, Site)]
        tree = joined_tree(sites, sites[1].root, SMALL.domain, [[0], [1]])
        assert tree == grow_id3(SMALL, max_depth=one.plan.job.max_depth)


@pytest.mark.parametrize("kind", ["aligned", "secret with noise"])
def test_a_run_that_is_done_gives_the_same_again(kind: str) -> None:
    done = town(kind)
    first = grown_of(done.attempt())
    left, steps = copy.deepcopy(done.left), {n: disk.steps for n, disk in done.disks.items()}
    assert grown_of(done.attempt()) == first
    assert done.left == left
    assert {n: disk.steps for n, disk in done.disks.items()} == steps


def test_a_member_that_has_lost_what_it_kept_refuses() -> None:
    clean = town("secret with noise")
    clean.attempt()
    last = clean.disks["site 1"].steps - 2
    for member in ("site 0", "site 1", "server 0", "server 1"):
        one = town("secret with noise")
        assert one.killed("site 1", last, "after")
        one.disks[member].heard.clear()
        with pytest.raises(HedgerowError) as caught:
            one.attempt()
        assert caught.value.code is Code.ANSWERS_LOST, member
        one.check()
    one.disks["site 0"].state = b"short"
    with pytest.raises(HedgerowError):
        one.attempt()


def test_a_server_that_comes_back_with_another_key_is_refused() -> None:
    """By the sites, and once questions were answered by the servers, too."""
    refusals = (Code.SEALED_REFUSED, Code.ANSWERS_LOST)
    for step, code in zip((1, 5), refusals, strict=True):
        one = town("secret with noise")
        assert one.killed("site 1", step, "after")
        one.disks["server 1"].state = None
        with pytest.raises(HedgerowError) as caught:
            one.attempt()
        assert caught.value.code is code


def test_a_damaged_memory_is_refused() -> None:
    for member, line in (("site 0", b"\xff\xff!"), ("server 0", b"{}"), ("server 2", b"[")):
        one = town("secret with noise")
        assert one.killed("site 1", 9, "after")
        one.disks[member].heard[0] = line
        with pytest.raises(HedgerowError) as caught:
            one.attempt()
        assert caught.value.code is Code.ANSWERS_LOST


# Liars: members that know better, and claim to stand where they stood before.


@pytest.mark.parametrize("kind", ["ring with noise", "secret with noise"])
@pytest.mark.parametrize("liar", [0, 1])
def test_a_site_that_claims_to_have_heard_nothing_hears_the_same_again(
    kind: str, liar: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It draws anew, and asks something else; nobody counts or draws for it a second time."""
    one = town(kind)
    name = one.sites[liar]
    clean = town(kind)
    clean.attempt()
    for step in range(3, clean.disks[name].steps, 2):
        one = town(kind)
        assert one.killed(name, step, "after")
        before = {at: set(found) for at, found in one.left.items() if at[1] == name}
        monkeypatch.setattr(Correspondence, "check", lambda self: None)
        for turn in range(2):
            one.disks[name] = Disk()
            one.sources[liar] = NoiseSource.insecure_seeded(90 + turn)
            with suppress(HedgerowError):
                one.attempt()
        monkeypatch.undo()
        for at, found in one.left.items():
            if at[1] == name:
                assert len(found) == 1, at
        assert before.items() <= {a: set(f) for a, f in one.left.items()}.items()


@pytest.mark.parametrize("liar", ["server 0", "server 1", "server 2"])
def test_a_server_that_claims_to_stand_before_an_answer_gets_no_other(liar: str) -> None:
    """One half of it may have left; the liar would have it drawn again, as often as it likes."""
    honest = "server 1" if liar == "server 0" else "server 0"
    clean = town("secret with noise")
    clean.attempt()
    questions = clean.disks[honest].steps // 2
    assert questions == 3
    for number in range(1, questions + 1):
        one = town("secret with noise")
        # Its key, and two lines for every question: the second one says that the answer leaves.
        assert one.killed(honest, 2 * number, "after")
        for _ in range(3):
            one.disks[liar].heard = one.disks[liar].heard[: 2 * (number - 1)]
            with pytest.raises(HedgerowError) as caught:
                one.attempt()
            assert caught.value.code is Code.ANSWERS_LOST
        one.check()


def test_one_server_that_has_let_go_of_a_half_is_enough() -> None:
    """The other honest one was cut off before it had marked anything, and would count again."""
    one = town("secret with noise")
    clean = town("secret with noise")
    clean.attempt()
    last = clean.disks["server 1"].steps - 1
    assert one.killed("server 1", last, "before")
    lines = {name: one.disks[name].heard for name in one.members[:3]}
    assert b"left" in lines["server 0"][-1]
    assert b"left" not in lines["server 1"][-1]
    liar = one.disks["server 2"].heard
    while len(liar) >= len(lines["server 1"]):
        liar.pop()
    with pytest.raises(HedgerowError) as caught:
        one.attempt()
    assert caught.value.code is Code.ANSWERS_LOST
    one.check()


def test_a_site_cannot_have_heard_more_than_was_sent() -> None:
    for kind, liar in (("ring", "site 0"), ("ring", "site 1"), ("secret", "site 1")):
        one = town(kind)
        assert one.killed("site 0", 4, "after")

        def claim_much(context: Context, to: Sequence[str] = one.members) -> None:
            network, me = context.network, context.party
            others = [party for party in range(len(to)) if party != me]
            if context.plan.secret:
                for server in range(3):
                    network.receive(KEY, me, [server])
            for other in others:
                network.post(HEARD, me, other, struct.pack("<Q", 1 << 40))
                network.receive(HEARD, me, [other])
            network.receive(MESSAGE, me, others)

        one.programs[liar] = claim_much
        with pytest.raises(HedgerowError, match="1,099,511,627,776") as caught:
            one.attempt()
        assert caught.value.code is Code.ANSWERS_LOST


def test_only_the_site_that_begins_ends_a_run() -> None:
    early = to_bytes(Over(OVER, Token(0, 1)))
    for to in (0, 3):
        one = town("secret")

        def lie(context: Context, to: int = to) -> None:
            network, me = context.network, context.party
            for server in range(3):
                network.receive(KEY, me, [server])
            for other in (0, 1, 2, 3):
                network.post(HEARD, me, other, bytes(8))
                network.receive(HEARD, me, [other])
            for other in (0, 1, 2) if to == 0 else (3,):
                network.post(MESSAGE, me, other, early)
            network.receive(MESSAGE, me, [3])

        one.programs["site 1"] = lie
        with pytest.raises(HedgerowError, match="the end") as caught:
            one.attempt()
        assert caught.value.code is Code.BAD_SITE_MESSAGE


def test_sites_with_too_few_records_in_common_do_not_count() -> None:
    class Terms:
        least_records = 15

    one = town("aligned")
    made = one.context
    one.context = lambda network: replace(made(network), job=Terms())  # type: ignore[method-assign]
    with pytest.raises(HedgerowError, match="15 records that all sites have") as caught:
        one.attempt()
    assert caught.value.code is Code.IDS_DO_NOT_ALIGN


def test_progress_and_a_ledger_of_the_caller() -> None:
    one, told, ledger = town("ring"), [], Ledger(parties=["site 0", "site 1"])
    made = one.context

    def context(network: Network) -> Context:
        if network.local == (0,):
            return replace(made(network), progress=told.append, ledger=ledger)
        return made(network)

    one.context = context  # type: ignore[method-assign]
    first, _ = one.attempt()
    assert first.ledger is ledger
    assert [numbers["nodes"] for numbers in told] == list(range(1, len(first.nodes) + 1))
    assert all(set(numbers) == {"nodes", "messages", "bytes"} for numbers in told)


# Questions about instances.

DEEP = dealt(4, 3)


class Asking(Town):
    """Sites with a grown tree, and an asker."""

    def __init__(self, states: Sequence[Mapping[str, Any]], job: SiteJob, asker: int) -> None:
        self.encoded: Encoded = weather()
        super().__init__(job, tables_of(self.encoded, DEEP, job.class_at))
        self.states, self.asker = states, asker
        self.lacking: dict[int, list[int]] = {}
        self.parts: dict[int, Site] = {}

    def context(self, network: Network) -> Context:
        made = super().context(network)
        at, ids = made.party, self.encoded.ids
        assert ids is not None
        # As it is read from a store: every attempt begins with what was there before.
        own = Site.from_state(self.states[at], at, self.plan.job, self.tables[at])
        self.parts[at] = own
        bins = self.encoded.bins[:, DEEP[at]]
        has = ~np.isin(ids, self.lacking.get(at, []))
        table = AnsweringPart(own, ids[has], bins[has], ids if at == self.asker else None)
        return replace(made, table=table, job=Question(self.asker))

    def attend(self, network: Network) -> Any:
        return classify(self.context(network))


def asking(class_at: int | None = 2, answers_to: str = "asker", asker: int = 1) -> Asking:
    job = SiteJob(3, class_at, 2, answers_to=answers_to)
    run = run_vertical(Session(job, {}, secret=False), tables_of(weather(), DEEP, class_at))
    return Asking([site.to_state() for site in run.sites], job, asker)


def after(one: Asking) -> list[Any]:
    return [
        # In the order in which instances come from several sites.
        (site.what_was_learned(), sorted(site.kept), site.ledger.to_json())
        for _, site in sorted(one.parts.items())
    ]


@pytest.mark.parametrize(
    ("class_at", "answers_to"), [(2, "asker"), (2, "class site"), (None, "asker")]
)
def test_wherever_a_site_is_killed_the_answer_is_the_same(
    class_at: int | None, answers_to: str
) -> None:
    first = asking(class_at, answers_to)
    ends = first.attempt()
    expected, counts = after(first), ends[1]
    assert ends[0] is ends[2] is None
    assert (counts is None) == (answers_to == "class site")
    learned = {row["name"] for row in first.parts[1].what_was_learned()}
    assert (ANSWER in learned) == (answers_to == "asker")
    assert INSTANCES in {row["name"] for row in first.parts[2].what_was_learned()}
    first.check()
    for place in kills(first.disks, first.members):
        again = Asking(first.states, first.plan.job, first.asker)
        assert again.killed(*place), place
        again.sources = Asking(first.states, first.plan.job, first.asker).sources
        found = again.attempt()
        assert np.array_equal(found[1], counts)
        assert after(again) == expected, place
        again.check()
        assert again.left == first.left


@pytest.mark.parametrize("lacking", [0, 2])
def test_where_a_path_ends_nobody_is_told(lacking: int) -> None:
    """A site on the path lacks the instances; the asker hears that, and no more."""
    one = asking(class_at=1, asker=1)
    on_path = {at for at in (0, 2) if one.states[at]["nodes"]}
    one.lacking = {lacking: list(range(1, 15))}
    ends: dict[int, Any] = {}

    def attend(network: Network) -> None:
        try:
            ends[network.local[0]] = classify(one.context(network))
        except HedgerowError as error:
            ends[network.local[0]] = error

    Mesh(3).run({(i,): attend for i in range(3)})
    assert lacking in on_path
    assert (ends[0], ends[2]) == (None, None)
    assert ends[1].code is Code.IDS_DO_NOT_ALIGN
    assert "site 0" not in str(ends[1])
    assert "site 2" not in str(ends[1])


def test_nodes_are_all_that_a_site_needs_to_answer() -> None:
    """No rows, no record of how the tree was grown; what is learned then is of questions alone."""
    one = asking()
    expected = one.attempt()[1]
    made = one.context

    def context(network: Network) -> Context:
        full = made(network)
        own, at = full.table.site, full.party
        bare = Site(at, own.job, own.table.rows(np.empty(0, dtype=np.intp)))
        bare.take_up(own.nodes, own.root)
        one.parts[at] = bare
        return replace(full, table=replace(full.table, site=bare))

    one.context = context  # type: ignore[method-assign]
    one.disks.clear()
    assert np.array_equal(one.attempt()[1], expected)
    for site in one.parts.values():
        assert {row["name"] for row in site.what_was_learned()} <= {ANSWER, INSTANCES}
        assert site.ledger.total(f"site {site.index}").epsilon == float("inf")


def test_an_asker_without_its_own_instance_says_so() -> None:
    one = asking(class_at=0, asker=0)
    one.lacking = {0: [9]}
    with pytest.raises(HedgerowError, match="site 0 does not have") as caught:
        one.attempt()
    assert caught.value.code is Code.IDS_DO_NOT_ALIGN


def test_only_the_asker_ends_a_question() -> None:
    one = asking(asker=1)

    def attend(network: Network) -> Any:
        context = one.context(network)
        if context.party != 0:
            return classify(context)
        for other in (1, 2):
            network.post(HEARD, 0, other, bytes(8))
            network.receive(HEARD, 0, [other])
            network.post(MESSAGE, 0, other, to_bytes(Over(OVER, Token(0, 1))))
        return network.receive(MESSAGE, 0, [1])

    with pytest.raises(HedgerowError, match="the end of another site's question"):
        Mesh(3).run({(i,): attend for i in range(3)})


def test_a_question_brings_no_more_instances_than_it_was_said_to() -> None:
    """Sites have counted so many, by their policies, before they came."""
    one = asking(asker=1)

    def attend(network: Network) -> Any:
        context = one.context(network)
        said = Question(1, 14 if context.party == 1 else 3)
        return classify(replace(context, job=said))

    with pytest.raises(HedgerowError, match="more instances than the question was said of"):
        Mesh(3).run({(i,): attend for i in range(3)})


# In processes.


def test_sites_in_processes_grow_the_tree_of_one_process() -> None:
    table = weather()
    plan = Session(SiteJob(2, 0, 2, align=True, epsilon=9.0, max_depth=2), {}, secret=False)
    tables = tables_of(table, PAPER, 0)
    here, apart = (
        run_vertical(plan, tables, engine, seed=3) for engine in ("simulate", "processes")
    )
    assert grown_of(apart.sites) == grown_of(here.sites)
    assert apart.root == here.root
    assert apart.ledger is apart.learned is None


def test_a_process_that_dies_ends_the_attempt_for_all() -> None:
    job = {"n_sites": 2, "class_at": 0, "n_classes": 2}
    own = {
        party: [{name: getattr(each, name) for name in ("bins", "n_values", "labels", "ids")}]
        for party, each in enumerate(tables_of(SMALL, [[0], [1]], 0))
    }
    public = {"job": job, "secret": False, "seed": None}
    ends = run_spoilt(vertical_member, {1: Fault("die", MESSAGE)}, 2, [public], own=own)
    first, second = (end.error for end in ends)
    assert first is not None
    assert second is not None
    assert (first.code, second.code) == (Code.PEER_GONE, Code.PARTY_FAILED)
    assert f"step {MESSAGE!r}" in str(first)
