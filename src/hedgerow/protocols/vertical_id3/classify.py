"""`classifyInstance`: instances go from site to site by tokens.

Paper: vaidya2005vertical, section 3, algorithm 8 and theorem 2; section 6 for who learns the class.

A site looks at its own attribute, finds the token of the child and hands the instances on. The leaf
is at the class site, which waits until it has all instances of the question and then answers once,
in the order of the asker's list: which of them share a leaf is not in the answer. It is sealed to a
key that the asker drew for this question. With ``answers_to="class site"`` the class site keeps
what it found, and the asker is told once that all is done.

Where all sites hold the class, leaves lie at several sites. Each leaf answers by itself then, and
the asker sees which instances it answers for, and which site it is at.

What sites on the path learn all the same: which instances came to which of their nodes, the token
that each went on with, who asks, and about how many. Two instances with one leaf token have one
class, whichever it is. An asker that is itself on the path is such a site.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from nacl.exceptions import CryptoError
from nacl.public import Box, PrivateKey, PublicKey, SealedBox
from numpy.typing import NDArray

from hedgerow.crypto import curve25519
from hedgerow.errors import Code
from hedgerow.protocols.vertical_id3.leakage import ANSWER, INSTANCES
from hedgerow.protocols.vertical_id3.messages import (
    Answers,
    AnswersKept,
    Classify,
    Token,
    bad_message,
)
from hedgerow.protocols.vertical_id3.site import CollectedAnswers, Leaf, Site
from hedgerow.protocols.vertical_id3.tasks import Send, Task, Wait

MOST_ASKED = 1 << 20
"""Instances that one question may have."""
_KEY_BYTES = 32
_OPEN = 256
"""Questions that the class site collects at a time; of more, the oldest is given up."""


def classify_instances(
    site: Site, root: Token, instances: Sequence[bytes]
) -> Task[NDArray[np.int64] | None]:
    """Ask for the classes of instances, as `hedgerow.tables.ids.id_bytes` writes their ids.

    Returns the class counts of their leaves, int64 (n, c); None where the class site keeps them.

    Reveals: to this site the class counts of each instance's leaf, where ``answers_to="asker"``; to
    each site on a path the instances that come to its nodes and their next tokens, who asks and
    about how many.
    Cost: one message for each node and each of its children that instances come to, and one answer;
    an answer for each leaf where all sites hold the class.
    """
    n, c = len(instances), site.job.n_classes
    call, keep = site.new_call(), site.job.answers_to == "class site"
    secret = PrivateKey(site.entropy(_KEY_BYTES))
    key = b"" if keep else bytes(secret.public_key)
    found, missing = np.zeros((n, c), dtype=np.int64), np.ones(n, dtype=np.bool_)
    if not 0 <= root.site < site.job.n_sites:
        raise _unknown_node(root)
    if not n:
        return None if keep else found
    site.open_questions.add(call)
    rows = tuple(range(n))
    yield Send(
        root.site, Classify(call, site.index, key, root.node, rows, tuple(instances), asked=n)
    )
    while missing.any():
        ((sender, message),) = yield Wait(call, AnswersKept if keep else Answers)
        if site.job.class_at not in (None, sender):
            raise bad_message(f"site {sender}", "answers of another site than the class site")
        if keep:
            break
        at = np.array(message.rows, dtype=np.uint64)
        if not at.size or at.max() >= n or len(np.unique(at)) < at.size or not missing[at].all():
            raise bad_message(f"site {sender}", "answers that were not asked for")
        site.learn(ANSWER, (c,), len(at))
        found[at] = _open_answer(secret, message, sender, (len(at), c))
        missing[at] = False
    site.open_questions.discard(call)
    return None if keep else found


def pass_on(site: Site, sender: int, message: Classify) -> Task[None]:
    """Take instances to the next node (algorithm 8), or answer at a leaf."""
    node = site.nodes.get(message.node)
    if node is None:
        raise _unknown_node(Token(site.index, message.node))
    if (
        len(message.rows) != len(message.instances)
        or not message.rows
        or len(message.key) not in (0, _KEY_BYTES)
        or message.to >= site.job.n_sites
        or bool(message.key) != (site.job.answers_to == "asker")
        or len(set(message.rows)) != len(message.rows)
        or max(message.rows) >= message.asked
        or message.asked > MOST_ASKED
    ):
        raise bad_message(f"site {sender}", "a question that is not well formed")
    if message.key and curve25519.classify(_point(message.key))[0] != curve25519.GOOD:
        raise bad_message(f"site {sender}", "a question with a key that nothing can be sealed to")
    site.end_growth()
    site.learn(INSTANCES, (4,), len(message.rows))
    if isinstance(node, Leaf):
        yield from _collect(site, sender, message, node)
        return
    values = site.values_of(message.instances, node.attribute)
    for value in np.unique(values).tolist():
        token = node.children[value]
        at = np.flatnonzero(values == value).tolist()
        rows = tuple(message.rows[i] for i in at)
        those = tuple(message.instances[i] for i in at)
        yield Send(
            token.site,
            Classify(message.call, message.to, message.key, token.node, rows, those, message.asked),
        )


def _collect(site: Site, sender: int, message: Classify, leaf: Leaf) -> Task[None]:
    """Note the answers of a leaf; once all of a question are there, tell the asker."""
    if site.job.class_at is None:
        counts = np.tile(np.array(leaf.counts, dtype=np.int64), (len(message.rows), 1))
        yield _seal_answer(site, message, message.rows, counts)
        return
    of = (message.to, message.call, message.key, message.asked)
    mine = site.collected.get(of, CollectedAnswers())
    if not mine.rows.isdisjoint(message.rows):
        raise bad_message(f"site {sender}", "an instance that was answered for already")
    mine.rows.update(message.rows)
    mine.leaves.append((message.rows, leaf.counts))
    if not message.key:
        site.kept.append((message.instances, leaf.counts))
    if len(mine.rows) < message.asked:
        site.collected[of] = mine
        while len(site.collected) > _OPEN:
            # Instances of it were lost on the way: a site did not have them, or was not reached.
            site.collected.pop(next(iter(site.collected)))
        return
    site.collected.pop(of, None)
    if message.key:
        yield _seal_answer(site, message, tuple(range(message.asked)), mine.counts())
    else:
        yield Send(message.to, AnswersKept(message.call))


def _seal_answer(
    site: Site, message: Classify, rows: tuple[int, ...], counts: NDArray[np.int64]
) -> Send:
    """Write what `SealedBox` opens, under a key pair of this site's entropy."""
    fresh = PrivateKey(site.entropy(_KEY_BYTES))
    public = bytes(fresh.public_key)
    nonce = hashlib.blake2b(public + message.key, digest_size=Box.NONCE_SIZE).digest()
    box = Box(fresh, PublicKey(message.key))
    sealed = public + box.encrypt(counts.astype("<i8").tobytes(), nonce).ciphertext
    return Send(message.to, Answers(message.call, rows, sealed))


def _point(key: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(key, dtype=np.uint8).reshape(1, _KEY_BYTES)


def _open_answer(
    secret: PrivateKey, message: Answers, sender: int, shape: tuple[int, int]
) -> NDArray[np.int64]:
    try:
        plain = SealedBox(secret).decrypt(message.sealed)
        return np.frombuffer(plain, dtype="<i8").reshape(shape).astype(np.int64)
    except (CryptoError, ValueError):
        raise bad_message(f"site {sender}", "an answer that does not open") from None


def _unknown_node(token: Token) -> Exception:
    return Code.UNKNOWN_NODE.error(found=f"the token {token}")
