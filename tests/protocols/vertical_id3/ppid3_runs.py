"""Small runs of vertical ID3: the weather table, and sites made from a table's columns."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from hedgerow.crypto.commutative import CipherKey, Curve25519Cipher, Elements
from hedgerow.net.frames import mail_digest
from hedgerow.net.mesh import Mesh
from hedgerow.net.network import Network
from hedgerow.protocols.contract import Context
from hedgerow.protocols.vertical_id3.job import SiteJob
from hedgerow.protocols.vertical_id3.messages import Message, Token, from_bytes
from hedgerow.protocols.vertical_id3.plan import Session
from hedgerow.protocols.vertical_id3.programs import MESSAGE, grow
from hedgerow.protocols.vertical_id3.run import members_of
from hedgerow.protocols.vertical_id3.site import Site, SiteTable
from hedgerow.tables import Attribute, Domain, Encoded, Target, encode
from tests.protocols.vertical_id3.local_sites import Tap

OUTLOOK = ("sunny", "overcast", "rainy")
TEMPERATURE = ("hot", "mild", "cool")
HUMIDITY = ("high", "normal")
WIND = ("weak", "strong")

# Quinlan's fourteen days.
_DAYS = """
sunny hot high weak no
sunny hot high strong no
overcast hot high weak yes
rainy mild high weak yes
rainy cool normal weak yes
rainy cool normal strong no
overcast cool normal strong yes
sunny mild high weak no
sunny cool normal weak yes
rainy mild normal weak yes
sunny mild normal strong yes
overcast mild high strong yes
overcast hot normal weak yes
rainy mild high strong no
"""
DAYS = [line.split() for line in _DAYS.split("\n") if line]

WEATHER = Domain(
    attributes=tuple(
        Attribute(name=name, kind="categorical", categories=values)
        for name, values in (
            ("outlook", OUTLOOK),
            ("temperature", TEMPERATURE),
            ("humidity", HUMIDITY),
            ("wind", WIND),
        )
    ),
    target=Target(name="play", classes=("no", "yes")),
    capacity=20,
)


def weather() -> Encoded:
    """Encode the fourteen days, with the days 1 to 14 as ids."""
    rows = [day[:4] for day in DAYS]
    return encode(rows, WEATHER, [day[4] for day in DAYS], ids=np.arange(1, 15))


# The paper's sites: the first has outlook, temperature and the class, the second the rest.
PAPER = [[0, 1], [2, 3]]


def dealt(n_columns: int, n_sites: int) -> list[list[int]]:
    """Deal columns to sites in order."""
    return [part.tolist() for part in np.array_split(np.arange(n_columns), n_sites)]


def sites_of(
    table: Encoded, groups: Sequence[Sequence[int]], class_at: int | None = 0, **job: Any
) -> list[Site]:
    """Make the sites of a table whose columns are dealt."""
    options = {key: job.pop(key) for key in ("cipher", "entropy", "source") if key in job}
    assert table.domain.target is not None
    n_classes = table.domain.target.n_classes
    assert n_classes is not None
    public = SiteJob(len(groups), class_at, n_classes, **job)
    return [
        Site(
            i,
            public,
            SiteTable(
                table.bins[:, list(group)],
                table.domain.n_bins[list(group)].astype(np.int64),
                table.target if public.knows_class(i) else None,
                table.ids,
            ),
            **options,
        )
        for i, group in enumerate(groups)
    ]


class TappedMesh(Mesh):
    """A mesh on which a tap sees every message of a site, and every answer of a server."""

    def __init__(self, n: int, tap: Tap, *, servers: int = 0, **more: Any) -> None:
        super().__init__(n, **more)
        self._tap, self._servers = tap, servers

    def send(self, pair: tuple[int, int], digest: bytes, content: Any) -> None:
        if digest == mail_digest(MESSAGE):
            sender, to = ((party - self._servers) % self.n for party in pair)
            self._tap(sender, to, content)
        super().send(pair, digest, content)


def grown(sites: Sequence[Site], tap: Tap | None = None) -> Token:
    """Grow a tree; returns where it begins."""
    plan = Session(sites[0].job, {}, secret=False)

    def attend(network: Network) -> Site:
        context = Context(network, members_of(plan), plan)
        return grow(context, sites[context.party])

    mesh = Mesh(len(sites)) if tap is None else TappedMesh(len(sites), tap)
    roots = {site.root for site in mesh.run({(i,): attend for i in range(len(sites))})}
    assert len(roots) == 1
    return roots.pop()


def growing(sites: Sequence[Site]) -> None:
    """Put sites that have grown a tree back to where they still take part in growing one."""
    for site in sites:
        site.grown = False


class Wire:
    """A tap that keeps every message, read from its bytes."""

    def __init__(self) -> None:
        self.messages: list[tuple[int, int, Message]] = []
        self.bytes = 0

    def __call__(self, sender: int, to: int, data: bytes) -> None:
        self.messages.append((sender, to, from_bytes(data, f"site {sender}")))
        self.bytes += len(data)

    def of(self, kind: type[Message], to: int | None = None) -> list[Any]:
        """Return the messages of a kind, to one site or to all."""
        return [
            message
            for _, receiver, message in self.messages
            if isinstance(message, kind) and to in (None, receiver)
        ]


class ManyKeys(Curve25519Cipher):
    """The cipher of a site that encrypts each of its own elements under another key."""

    def __init__(self) -> None:
        self.rows: dict[bytes, int] = {}
        self.sets: list[dict[int, CipherKey]] = []

    def hash(self, messages: Sequence[bytes], purpose: str) -> Elements:
        found = super().hash(messages, purpose)
        if purpose == "records":
            self.rows = {element.tobytes(): row for row, element in enumerate(found)}
        return found

    def encrypt(self, key: CipherKey, elements: Elements) -> Elements:
        own = [self.rows.get(element.tobytes()) for element in elements]
        if None in own or not own:
            return super().encrypt(key, elements)
        self.sets.append({row: self.new_key() for row in own})
        one_by_one = zip(self.sets[-1].values(), elements[:, None], strict=True)
        return np.concatenate([super(ManyKeys, self).encrypt(*pair) for pair in one_by_one])

    def recognised(self, back: Sequence[bytes], others: bytes) -> list[int]:
        """Tell which of the rows of this site's first set are among elements of another site.

        Parameters
        ----------
        back : sequence of bytes
            That set as it came back, under the keys of the other sites as well.
        others : bytes
            Elements of another site under the keys of the other sites alone.
        """
        returned = {blob[i : i + 32] for blob in back for i in range(0, len(blob), 32)}
        elements = np.frombuffer(others, np.uint8).reshape(-1, 32)
        return [
            row
            for row, key in self.sets[0].items()
            if any(
                one.tobytes() in returned for one in super(ManyKeys, self).encrypt(key, elements)
            )
        ]
