"""`PaillierColumns`: the linear step of Pivot as published, under threshold Paillier.

Paper: wu2020pivot, algorithms 1 and 2, and section 5.2 for secret choices.

It grows the same trees as `PeerColumns`, and is what that is measured against. Deviations:

- Columns come as shares, so that gradients that nobody knows can be summed up too; every peer
  encrypts its own. Numbers are right modulo 2^k, see `JointKey`.
- Whoever owns a split updates the masks of all columns, as section 6.2 does for boosting; else it
  would update presence alone, and the label's owner would multiply again.
- Sums are by bins and not by both sides of every cut, and of two children one is counted.
- The owner of an attribute takes the part of the first client in algorithm 1.
- Masks hide what is decrypted, and products by 0 and 1 are randomised: the authors' program does
  neither.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.crypto.paillier import Encrypted, Slots
from hedgerow.errors import Code
from hedgerow.protocols.growers.layout import Layout
from hedgerow.protocols.pivot.columns import PeerRows, goes_left
from hedgerow.secure.additive.ciphertexts import ENCRYPT, JointKey, slot_width
from hedgerow.secure.additive.punctured import check_bins
from hedgerow.secure.cost import Cost
from hedgerow.secure.secret import Secret
from hedgerow.trees.growing.nodes import NodeSplits

Array = NDArray[Any]


class PaillierColumns(PeerRows):
    """Rows as encrypted masks that all peers have; attributes in the clear, each at its owner.

    `bins` (n,) are given for each attribute whose owner lives here. `packed` puts as many columns
    of a record into a ciphertext as have room, and as many sums into a decryption; else there is
    one number in each. `secret_choices` says whether to leave room for `descend_among`.

    Reveals: nothing but to the dealer of the key. Cost: `cost_encrypt`, at once.
    """

    def __init__(
        self,
        layout: Layout,
        columns: Secret,
        owners: Sequence[int],
        bins: Mapping[int, Array],
        key: JointKey,
        *,
        packed: bool = True,
        secret_choices: bool = True,
    ) -> None:
        super().__init__(layout, columns, owners)
        self._key, self._core, self._secret_choices = key, self.engine.core, secret_choices
        self._bins = {
            j: check_bins(j, bins.get(j), self.n_rows, int(most))
            for j, (owner, most) in enumerate(
                zip(self.owners, layout.candidates.n_bins, strict=True)
            )
            if self._core.at(owner) is not None
        }
        self._k, room = columns.shape[1], key.public.room
        width = slot_width(self._core.n, self._largest() * self.n_rows)
        self._slots = Slots(min(self._k, room // width), width) if packed else Slots(1, room)
        if width > room:
            raise Code.PLAINTEXT_OVERFLOW.error(
                expected=f"sums and their masks of at most {room:,} bits", found=f"{width:,} bits"
            )
        rows = np.swapaxes(columns[0].data, 1, 2)
        encrypted = key.encrypt_for_all(rows, self._slots, self.ring)
        self._masks = replace(encrypted, data=encrypted.data.T[None])

    @property
    def n_nodes(self) -> int:
        """Nodes of this level."""
        return int(self._masks.data.shape[0])

    def cost_encrypt(self, k: int) -> Cost:
        """State the cost of encrypting the columns."""
        each = self._pieces(k) * self.n_rows
        return self._key.cost_broadcast(dict.fromkeys(range(self._core.n), each))

    def _counted(self, nodes: NDArray[np.int64]) -> Secret:
        masks, n, held, sizes = self._masks[nodes], self.n_rows, {}, {}
        s, pieces = masks.data.shape[:2]
        for owner, attributes in self._by_owner():
            sizes[owner] = s * pieces * self._columns(attributes).size
            if self._core.at(owner) is not None:
                which = [
                    np.flatnonzero(self._bins[j] == b)
                    for j in attributes
                    for b in range(self.layout.candidates.n_bins[j])
                ]
                held[owner] = masks.sums(which, n).reshape(-1)
        shares = self._key.share(held, sizes, self._slots, masks.most * n, self.ring)
        out = self._core.shares((s, self._k, self.layout.n_columns), self.ring.dtype)
        for owner, attributes in self._by_owner():
            where = self._columns(attributes)
            slots = shares[owner].reshape(len(out), s, pieces, where.size, self._slots.count)
            columns = np.swapaxes(slots, 3, 4).reshape(
                len(out), s, pieces * self._slots.count, where.size
            )
            out[..., where] = columns[:, :, : self._k]
        return Secret(self.engine, self.ring, out)

    def cost_histogram(self, nodes: int, k: int, *, siblings: bool) -> Cost:
        """State the cost of `histogram` of so many nodes; `siblings`: below a histogram."""
        each = (nodes // 2 if siblings else nodes) * self._pieces(k)
        sizes = {owner: each * self._columns(those).size for owner, those in self._by_owner()}
        return self._key.cost_share(sizes, self._slots)

    def go_down(self, split: NodeSplits, *, last: bool = False) -> None:
        """Go down by public splits (algorithm 2). See `PeerRows.go_down`.

        The owner of a split multiplies the masks by its indicator vector, randomises and
        broadcasts them. What goes right is the rest.

        Cost: `cost_go_down`.
        """
        del last
        parents, made = self._masks[split.nodes], {}
        owners = np.array([self.owners[f] for f in split.feature], dtype=np.int64)
        for owner, places in _groups(owners):
            if self._core.at(owner) is not None:
                bits = np.stack(
                    [goes_left(self._bins[int(split.feature[i])], split, int(i)) for i in places]
                )
                made[owner] = parents[places].select(bits[:, None]).data.reshape(-1)
        self._divide(split.nodes, self._broadcast(made, parents, owners), 0)

    def cost_go_down(self, owners: Sequence[int], k: int) -> Cost:
        """State the cost of `go_down` by splits of these owners."""
        return self._key.cost_broadcast(_sizes(owners, self._pieces(k) * self.n_rows))

    def descend_among(
        self, nodes: NDArray[np.int64], choice: Secret, attributes: Sequence[Sequence[int]]
    ) -> None:
        """Go down by secret choices (section 5.2). See `PeerRows.descend_among`.

        The first owner of a node's attributes leads.

        1. All peers encrypt their shares of the choice, each part for its owner: [lambda].
        2. Each owner adds up what sends a row left (theorem 2), randomises and broadcasts [v].
        3. Masks become shares (algorithm 1); each peer multiplies [v] by its share (formula 7),
           randomises, and the leader adds up and broadcasts.

        Cost: `cost_descend_among`.
        """
        if not self._secret_choices:
            raise Code.PLAINTEXT_OVERFLOW.error(
                expected="rows with room for secret choices", found="secret_choices=False"
            )
        key, ring, pieces = self._key, self.ring, self._masks.data.shape[1]
        parents = self._masks[nodes]
        routes = self._routes(self.engine.reduce(choice, ring), attributes)
        leaders = self._leaders(attributes)
        sizes = _sizes(leaders, pieces * self.n_rows)
        held = {peer: parents[places].reshape(-1) for peer, places in _groups(leaders)}
        shares = key.share(held, sizes, self._slots, parents.most, ring)
        parts: dict[int, dict[int, Array]] = {}
        for leader, places in _groups(leaders):
            v = np.repeat(routes.data[places][:, None], pieces, axis=1).reshape(-1)
            factors = [self._slots.pack(x.astype(object))[:, 0] for x in shares[leader]]
            parts[leader] = {
                peer: replace(routes, data=v)
                .multiply(own, self._slots, (1 << ring.bits) - 1)
                .randomise()
                .data
                for peer, own in zip(self._core.here, factors, strict=True)
            }
        made = {
            leader: key.public.product(sent)
            for leader, sent in key.collect(ENCRYPT, parts, sizes).items()
        }
        left = replace(parents, most=self._largest_product())
        self._divide(nodes, self._broadcast(made, left, leaders), self._lift())

    def cost_descend_among(self, attributes: Sequence[Sequence[int]], k: int) -> Cost:
        """State the cost of `descend_among`."""
        key, n, leaders = self._key, self.n_rows, self._leaders(attributes)
        masks = _sizes(leaders, self._pieces(k) * n)
        choices, routes = {}, {}
        for owner, those in self._choosers(attributes).items():
            choices[owner] = sum(map(len, those.values()))
            routes[owner] = n * len(those)
        found = key.cost_collect(choices) + key.cost_broadcast(routes)
        found += key.cost_share(masks, self._slots)
        return found + key.cost_collect(masks) + key.cost_broadcast(masks)

    def _routes(self, choice: Secret, attributes: Sequence[Sequence[int]]) -> Encrypted:
        """Encrypt which rows secret choices (s, C) send left, (s, n)."""
        key, n, choosers = self._key, self.n_rows, self._choosers(attributes)
        single = Slots(1, key.public.room)
        x = {
            owner: np.concatenate([choice.data[:, s, those] for s, those in nodes.items()], axis=1)
            for owner, nodes in choosers.items()
        }
        encrypted = key.encrypt({i: part[..., None] for i, part in x.items()}, single, self.ring)
        made = {}
        for owner, vector in encrypted.items():
            found, at = [], 0
            for s, those in choosers[owner].items():
                part = vector[at : at + those.size, 0]
                at += those.size
                mine = [j for j in attributes[s] if self.owners[j] == owner]
                found.append(self._route(part, those, mine).data)
            rows = replace(vector, most=self._largest_route(), data=np.concatenate(found))
            made[owner] = rows.randomise().data
        sizes = {owner: n * len(nodes) for owner, nodes in choosers.items()}
        sent = key.broadcast(ENCRYPT, made, sizes)
        total = np.full((len(attributes), n), key.public.one, dtype=object)
        for owner, nodes in choosers.items():
            places = list(nodes)
            total[places] = key.public.product([total[places], sent[owner].reshape(-1, n)])
        return Encrypted(key.public, single, self._largest_route(), total)

    def _route(
        self, vector: Encrypted, candidates: NDArray[np.int64], attributes: Sequence[int]
    ) -> Encrypted:
        """Add up what sends each row left, of a choice among some candidates: V [lambda]."""
        routes = []
        for j in attributes:
            left = self.layout.left[np.ix_(candidates, self._columns([j]))].astype(np.bool_)
            table = vector.sums([np.flatnonzero(bin_) for bin_ in left.T], candidates.size)
            routes.append(table[self._bins[j]].data)
        return replace(vector, data=vector.key.product(routes))

    def _divide(self, nodes: NDArray[np.int64], left: Encrypted, lift: int) -> None:
        """Keep the children of some nodes, the right ones by subtraction."""
        right = self._masks[nodes].subtract(left, lift)
        both = np.stack([left.data, right.data], axis=1).reshape(-1, *left.data.shape[1:])
        self._masks = replace(right, most=max(left.most, right.most), data=both)
        self._keep_above(nodes)

    def _broadcast(
        self, made: Mapping[int, Array], like: Encrypted, leaders: Sequence[int] | Array
    ) -> Encrypted:
        """Broadcast the masks of nodes, each from its leader."""
        sizes = _sizes(leaders, int(np.prod(like.data.shape[1:])))
        data = np.empty_like(like.data)
        for leader, sent in self._key.broadcast(ENCRYPT, made, sizes).items():
            places = np.flatnonzero(np.asarray(leaders) == leader)
            data[places] = sent.reshape(-1, *data.shape[1:])
        return replace(like, data=data)

    # How large numbers can become; all of these are public

    def _largest(self) -> int:
        """Return the largest number of a mask, at any depth that can be reached."""
        root = self._core.n * ((1 << self.ring.bits) - 1)
        return root + self._lift() * (self.layout.deepest if self._secret_choices else 0)

    def _largest_route(self) -> int:
        """Return the largest number that says whether a row goes left; right modulo 2^k."""
        share = (1 << self.ring.bits) - 1
        return max(1, len(self.layout.candidates)) * self._core.n * share

    def _largest_product(self) -> int:
        return self._core.n * ((1 << self.ring.bits) - 1) * self._largest_route()

    def _lift(self) -> int:
        """Return a multiple of 2^k that is no smaller than any product."""
        return -(-self._largest_product() >> self.ring.bits) << self.ring.bits

    # Who has what

    def _pieces(self, k: int) -> int:
        """Return how many ciphertexts k columns of a row take."""
        return -(-k // self._slots.count)

    def _by_owner(self) -> Iterator[tuple[int, list[int]]]:
        for owner in sorted(set(self.owners)):
            yield owner, [j for j, its in enumerate(self.owners) if its == owner]

    def _columns(self, attributes: Sequence[int]) -> NDArray[np.int64]:
        """Return which columns of histograms some attributes have."""
        offset = self.layout.candidates.offset
        return np.concatenate([np.arange(offset[j], offset[j + 1]) for j in attributes])

    def _leaders(self, attributes: Sequence[Sequence[int]]) -> list[int]:
        return [min(self.owners[j] for j in those) for those in attributes]

    def _choosers(
        self, attributes: Sequence[Sequence[int]]
    ) -> dict[int, dict[int, NDArray[np.int64]]]:
        """Return for each owner its candidates of the nodes that may choose among them."""
        found: dict[int, dict[int, NDArray[np.int64]]] = {}
        for s, those in enumerate(attributes):
            for owner in sorted({self.owners[j] for j in those}):
                mine = [j for j in those if self.owners[j] == owner]
                candidates = np.flatnonzero(np.isin(self.layout.candidates.feature, mine))
                if candidates.size:
                    found.setdefault(owner, {})[s] = candidates
        return found


def _groups(peers: Sequence[int] | Array) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Return for each peer among these at which places it stands."""
    for peer in np.unique(np.asarray(peers, dtype=np.int64)):
        yield int(peer), np.flatnonzero(np.asarray(peers) == peer)


def _sizes(peers: Sequence[int] | Array, each: int) -> dict[int, int]:
    return {peer: each * places.size for peer, places in _groups(peers)}
