"""Servers that count: the order of questions, what they answer, and what they refuse."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hedgerow.crypto.sealed import SealingKey
from hedgerow.errors import Code, HedgerowError
from hedgerow.net.network import Network
from hedgerow.net.simulator import Simulator
from hedgerow.privacy import NoiseSource
from hedgerow.protocols.sharing.sealed_parts import seal_dealt
from hedgerow.protocols.vertical_id3.job import SiteJob
from hedgerow.protocols.vertical_id3.messages import (
    BEST,
    SIZES,
    AskGain,
    AskServers,
    BeginServers,
    GainReply,
    Half,
    SealedSet,
    from_bytes,
    to_bytes,
)
from hedgerow.protocols.vertical_id3.plan import sizes_of
from hedgerow.protocols.vertical_id3.secret import server as order
from hedgerow.protocols.vertical_id3.secret.server import (
    LEADER,
    STEP,
    CountServers,
    ServerQuestion,
    receive_next,
    send_next,
)
from hedgerow.protocols.vertical_id3.site import Site, SiteTable
from reproduce.paper_002.local_sites import LocalSites, ServerQuestions
from tests.net.net_parties import Club
from tests.protocols.vertical_id3.ppid3_runs import PAPER, dealt, weather
from tests.protocols.vertical_id3.secret.secret_runs import tables_of

SAID = [ServerQuestion(2, 3 << 48 | 9), ServerQuestion(0, 1), ServerQuestion(0, 0)]


@pytest.fixture
def club(tmp_path: Path) -> Club:
    return Club(tmp_path, 3)


def test_the_others_hear_what_server_0_says(club: Club) -> None:
    meters = []

    def program(network: Network) -> list[ServerQuestion]:
        (party,) = network.local
        if party != LEADER:
            return [receive_next(network) for _ in SAID]
        for following in SAID:
            send_next(network, following)
        meters.append(network.meter.snapshot())
        return SAID

    assert club.run(program) == [SAID] * 3
    (meter,) = meters
    sent = meter.at(STEP, LEADER)
    # As declared: a round each, and 11 bytes to each of the two others.
    assert (sent.rounds, sent.payload) == (len(SAID), len(SAID) * 2 * 11)


@pytest.mark.parametrize(
    "data", [b"\x03" + bytes(10), bytes(11), b"\x02" + bytes(10), b"\x00\x01" + bytes(9)]
)
def test_what_is_no_order(club: Club, data: bytes) -> None:
    def program(network: Network) -> str:
        (party,) = network.local
        if party == LEADER:
            wrong = np.frombuffer(data, dtype=np.uint8)
            order._exchange(network, {0: wrong, 1: wrong})
            return "said"
        try:
            receive_next(network)
        except HedgerowError as error:
            return error.code.number
        return "heard"

    number = Code.BAD_FRAME.number
    assert club.run(program) == ["said", number, number]


# Fixed, because the servers draw their noise under the session, of which the keys are a part.
KEYS = {server: SealingKey(bytes([1 + server]) * 32) for server in range(3)}
PUBLIC = tuple(KEYS[server].public.hex() for server in range(3))


def job_of(n_sites: int = 2, class_at: int | None = 0, **more: object) -> SiteJob:
    return SiteJob(n_sites, class_at, 2, server_keys=PUBLIC, **more)


class Run:
    """A run in which messages to the servers can be changed, and asked again."""

    def __init__(self, change=None, groups=PAPER, class_at=0, tables=None, **job) -> None:
        self.job = job_of(len(groups), class_at, **job)
        tables = tables or tables_of(weather(), groups, class_at)
        self.sites = [
            Site(i, self.job, table, source=NoiseSource.insecure_seeded(i))
            for i, table in enumerate(tables)
        ]
        self.local = LocalSites(self.sites, to_servers=ServerQuestions(self._answer))
        self.servers = CountServers(self.job, KEYS, lambda: Simulator(3), seed=4)
        self.asked: list[tuple[int, dict[int, object]]] = []
        self.change = change or (lambda server, message: message)

    def _answer(self, sender: int, asks: dict[int, bytes]) -> dict[int, bytes]:
        return self.answer(sender, asks)

    def answer(self, sender: int, asks: dict[int, bytes]) -> dict[int, bytes]:
        read = {server: from_bytes(data, "x") for server, data in asks.items()}
        self.asked.append((sender, read))
        told = {server: self.change(server, message) for server, message in read.items()}
        return self.servers.answers(sender, {s: to_bytes(message) for s, message in told.items()})

    def grow(self) -> "Run":
        self.local.grow()
        return self

    def again(self, sender: int, asks: dict[int, object]) -> dict[int, bytes]:
        return self.servers.answers(sender, {s: to_bytes(m) for s, m in asks.items()})


def refused(call, code: Code) -> str:
    with pytest.raises(HedgerowError) as caught:
        call()
    assert caught.value.code is code
    return str(caught.value)


def of_kind(run: Run, what: int) -> tuple[int, dict[int, AskServers]]:
    return next(
        (sender, asks)
        for sender, asks in run.asked
        if isinstance(asks[0], AskServers) and asks[0].what == what
    )


@pytest.fixture(scope="module")
def run() -> Run:
    return Run(groups=dealt(4, 3), class_at=2).grow()


def test_a_question_is_answered_once(run: Run) -> None:
    sender, asks = of_kind(run, SIZES)
    assert "a second time" in refused(lambda: run.again(sender, asks), Code.BAD_SITE_MESSAGE)


@pytest.mark.parametrize(
    "change",
    [
        {"counter": 1},
        {"ring": (2, 0)},
        {"ring": (0, 0)},
        {"ring": (0,)},
        {"ring": (0, 7)},
        {"ring": (1, 2)},
        {"groups": (3,)},
        {"parts": (b"",)},
        {"what": 1},
    ],
)
def test_questions_that_do_not_follow_are_refused(run: Run, change: dict) -> None:
    sender, asks = of_kind(run, SIZES)
    assert (sender, asks[0].ring) == (0, (0, 2))
    told = {s: replace(message, call=1, **change) for s, message in asks.items()}
    refused(lambda: run.again(sender, told), Code.BAD_SITE_MESSAGE)


def test_a_question_in_other_groups_than_announced_is_refused(run: Run) -> None:
    sender, asks = of_kind(run, SIZES)
    for groups in ((5, 2), (3, 1), (3, 3)):
        told = {s: replace(message, call=1, groups=groups) for s, message in asks.items()}
        refused(lambda told=told: run.again(sender, told), Code.SITE_CONTRADICTS)


def test_servers_must_be_asked_the_same(run: Run) -> None:
    sender, asks = of_kind(run, SIZES)
    told = {s: replace(message, call=1 + (s == 2)) for s, message in asks.items()}
    refused(lambda: run.again(sender, told), Code.BAD_SITE_MESSAGE)
    refused(lambda: run.again(sender, {0: asks[0], 1: asks[1]}), Code.BAD_SITE_MESSAGE)


def test_a_run_begins_once_and_with_its_own_job() -> None:
    servers = CountServers(job_of(), KEYS, lambda: Simulator(3))
    ask = AskServers(9, SIZES, 0, (0, 1), (2, 2), (b"", b""))
    refused(lambda: servers.answers(0, dict.fromkeys(KEYS, to_bytes(ask))), Code.BAD_SITE_MESSAGE)
    begin = BeginServers(9, job_of().digest(), 0, 14, (2, 2), (3, 3, 2, 2), (b"", b""))
    for sender, wrong in (
        (0, {"job": bytes(32)}),
        (1, {}),
        (0, {"attributes": (2,)}),
        (0, {"attributes": (2, 3)}),
        (0, {"values": (3, 3, 2, 0)}),
    ):
        asks = dict.fromkeys(KEYS, to_bytes(replace(begin, **wrong)))
        refused(lambda s=sender, a=asks: servers.answers(s, a), Code.BAD_SITE_MESSAGE)


def test_a_part_for_another_call_does_not_open(run: Run) -> None:
    sender, asks = of_kind(run, SIZES)
    told = {s: replace(message, call=1) for s, message in asks.items()}
    text = refused(lambda: run.again(sender, told), Code.SHARES_DIFFER)
    assert "others of site 0, site 2, passed on by" in text


@pytest.mark.parametrize("server", [0, 1, 2])
def test_a_part_that_was_changed_names_its_site(server: int) -> None:
    def change(at: int, message: object) -> object:
        if at != server or not isinstance(message, AskServers) or message.what != SIZES:
            return message
        first, second = message.parts
        return replace(message, parts=(first, second[:-1] + bytes([second[-1] ^ 1])))

    assert "others of site 1, passed on by" in refused(Run(change).grow, Code.SHARES_DIFFER)


def test_keys_have_to_be_those_of_the_job() -> None:
    other = {**KEYS, 1: SealingKey()}
    refused(lambda: CountServers(job_of(), other, lambda: Simulator(3)), Code.BAD_SITES)
    refused(
        lambda: CountServers(job_of(), {0: KEYS[0]}, lambda: Simulator(3), computed="clear"),
        Code.BAD_PARAMETER,
    )
    for keys in (PUBLIC[:2], (*PUBLIC[:2], PUBLIC[0]), ("no key", *PUBLIC[1:])):
        refused(lambda keys=keys: SiteJob(2, 0, 2, server_keys=keys), Code.BAD_SITES)


def test_servers_answer_and_sites_do_not_in_their_place() -> None:
    run = Run().grow()
    site = run.local.programs[0]
    half = to_bytes(Half(1, SIZES, b"ab"))
    refused(lambda: site.receive(1, half), Code.BAD_SITE_MESSAGE)
    refused(lambda: site.receive(2, to_bytes(AskGain(1, 1, 0, ()))), Code.BAD_SITE_MESSAGE)
    # Halves and parts that nobody waits for.
    refused(lambda: site.receive(2, half), Code.BAD_SITE_MESSAGE)
    refused(lambda: site.receive(1, to_bytes(GainReply(1, 0.5))), Code.BAD_SITE_MESSAGE)
    refused(lambda: site.receive(1, to_bytes(SealedSet(1, SIZES, 1, ()))), Code.BAD_SITE_MESSAGE)
    refused(lambda: site.receive(5, half), Code.BAD_SITE_MESSAGE)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"groups": 2**63}, Code.SITE_CONTRADICTS),
        ({"groups": 5}, Code.SITE_CONTRADICTS),
        ({"what": BEST}, Code.BAD_SITE_MESSAGE),
        ({"parts": (b"", b"")}, Code.BAD_SITE_MESSAGE),
    ],
)
def test_parts_that_were_not_asked_for_are_refused(change: dict, code: Code) -> None:
    run = Run()
    site, honest = run.local.programs[0], run.local.programs[0].receive

    def receive(sender: int, data: bytes):
        message = from_bytes(data, "x")
        if isinstance(message, SealedSet) and message.what == SIZES:
            data = to_bytes(replace(message, **change))
        return honest(sender, data)

    site.receive = receive  # type: ignore[method-assign]
    refused(run.grow, code)


@pytest.mark.parametrize(
    "spoil", [lambda m: replace(m, half=m.half[:-1]), lambda m: replace(m, what=1 - m.what)]
)
def test_halves_that_do_not_fit_are_refused(spoil) -> None:
    run = Run()
    honest = run.answer

    def lying(sender: int, asks: dict[int, bytes]) -> dict[int, bytes]:
        found = honest(sender, asks)
        read = {server: from_bytes(data, "x") for server, data in found.items()}
        if read[0].what == SIZES:
            read[1] = spoil(read[1])
        return {server: to_bytes(message) for server, message in read.items()}

    run.answer = lying  # type: ignore[method-assign]
    refused(run.grow, Code.BAD_SITE_MESSAGE)


class Seen(Exception):
    """What the servers opened first to the second site."""


def first_table(run: Run) -> np.ndarray:
    """Return the first sizes that the servers open to the second site, and go no further."""
    site = run.sites[1]
    joined = site.cardinality._join_halves

    def look(call, what, name, shape, ring):
        numbers = yield from joined(call, what, name, shape, ring)
        assert (what, name) == (SIZES, sizes_of(shape))
        raise Seen(ring.signed(numbers).astype(np.int64).reshape(shape))

    site.cardinality._join_halves = look
    with pytest.raises(Seen) as seen:
        run.grow()
    return seen.value.args[0]


def test_the_counting_site_sees_counts_with_noise_of_the_right_law(chi_square) -> None:
    rng, n, p = np.random.default_rng(2), 30, 4000
    labels = rng.integers(0, 2, n).astype(np.uint8)
    values = rng.integers(0, p, n).astype(np.uint16)
    columns = [
        SiteTable(np.zeros((n, 0), np.uint8), np.array([], np.int64), labels, np.arange(n)),
        SiteTable(values[:, None], np.array([p]), None, np.arange(n)),
    ]
    run = Run(groups=[[], [0]], tables=columns, epsilon=3.0, max_depth=1)
    table = first_table(run)
    exact = np.zeros((p, 2), dtype=np.int64)
    np.add.at(exact, (values, labels), 1)
    assert table.shape == (p, 2)
    # Classes come in an order that the class site drew.
    noise = min((table - exact, table[:, ::-1] - exact), key=lambda one: int(np.abs(one).sum()))
    # Class counts of two levels and one table of the attribute: epsilon 1 each.
    mechanism = run.sites[1].cardinality.session.noise.mechanism
    assert mechanism.epsilon == pytest.approx(1.0)
    support = np.arange(-40, 41)
    counts = np.array([(noise == value).sum() for value in support])
    assert counts.sum() == noise.size
    law = mechanism.law(support)
    assert chi_square(counts, law / law.sum()) > 1e-3
    assert (noise != 0).any()


def test_without_noise_the_counts_are_exact() -> None:
    table = first_table(Run())
    # Humidity by class, classes in either order.
    assert sorted(table.ravel().tolist()) == [1, 3, 4, 6]


@pytest.mark.parametrize(
    ("weights", "epsilon"),
    [
        pytest.param(np.eye(14, dtype=int) << 12, 0.5, id="a person weighs 4096"),
        pytest.param(np.repeat(np.eye(14, dtype=int), 100, axis=0), 3.0, id="in 100 groups"),
    ],
)
def test_a_site_cannot_make_a_record_count_more_than_once(
    weights: np.ndarray, epsilon: float
) -> None:
    """The second site has a group of its own for every day, and reads their classes off."""
    days, p = weather(), len(weights)
    columns = [
        SiteTable(np.zeros((14, 0), np.uint8), np.array([], np.int64), days.target, days.ids),
        SiteTable(np.arange(14, dtype=np.uint16)[:, None], np.array([p]), None, days.ids),
    ]
    run = Run(groups=[[], [0]], tables=columns, epsilon=epsilon, max_depth=1)
    site = run.sites[1]

    def seal_weights(call, counter, ring, own) -> SealedSet:
        session = site.cardinality.session
        bound = session.context(call, SIZES, counter, ring)
        parts = seal_dealt(
            *(weights, session.ring, lambda server: bound.of(1, p, server)),
            *([KEYS[server].public for server in range(3)], site.entropy),
        )
        return SealedSet(call, SIZES, p, tuple(parts))

    def read_classes() -> None:
        read = first_table(run).reshape(14, -1, 2).sum(axis=1).argmax(axis=1)
        same = int((read == days.target).sum())
        # Classes come in an order that the class site drew.
        pytest.fail(f"the classes of {max(same, 14 - same)} of 14 days at epsilon {epsilon}")

    site.cardinality._seal_set = seal_weights
    text = refused(read_classes, Code.SHARES_DIFFER)
    assert "others of site 1, passed on by site 1" in text
