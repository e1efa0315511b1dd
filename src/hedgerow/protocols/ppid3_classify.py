"""`classifyInstance`: instances go from site to site by tokens.

Paper: vaidya2005vertical, section 3, algorithm 8 and theorem 2; section 6 for who learns the class.

A site looks at its own attribute, finds the token of the child and hands the instances on; it
never hears of them again. The leaf is at the class site. Its answer is sealed to a key that the
asker drew for this question, so whoever carries it cannot read it. With
``answers_to="class site"`` there is no answer: the class site keeps what it found, and the asker
is told only that it is done.

What sites on the path learn all the same: which instances came to which of their nodes, and the
token that each went on with. Two instances with one leaf token have one class, whichever it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from nacl.exceptions import CryptoError
from nacl.public import PrivateKey, PublicKey, SealedBox
from numpy.typing import NDArray

from hedgerow.errors import Code
from hedgerow.protocols.ppid3_leakage import ANSWER, INSTANCES
from hedgerow.protocols.ppid3_messages import Answers, Classify, Kept, Token, bad_message
from hedgerow.protocols.ppid3_nodes import Leaf
from hedgerow.protocols.ppid3_tasks import Send, Task, Wait

if TYPE_CHECKING:
    from hedgerow.protocols.ppid3_site import Site

_KEY_BYTES = 32


def classify_instances(
    site: Site, root: Token, instances: Sequence[bytes]
) -> Task[NDArray[np.int64] | None]:
    """Ask for the classes of instances; run at the site that asks.

    Reveals: to this site the class counts of each leaf, where ``answers_to="asker"``; to each site
    on a path the instances that come to its nodes and their next tokens.
    Cost: one message for each node and each of its children that instances come to.

    Parameters
    ----------
    site : Site
    root : Token
    instances : sequence of bytes
        Ids, as `hedgerow.tables.ids.id_bytes` writes them.

    Returns
    -------
    int64 (n, c) or None
        Class counts of the leaves; None where the class site keeps them.
    """
    n, c = len(instances), site.job.n_classes
    call, keep = site.new_call(), site.job.answers_to == "class site"
    secret = PrivateKey.generate()
    key = b"" if keep else bytes(secret.public_key)
    if not 0 <= root.site < site.job.n_sites:
        raise _unknown(root)
    yield Send(
        root.site, Classify(call, site.index, key, root.node, tuple(range(n)), tuple(instances))
    )
    found, missing = np.zeros((n, c), dtype=np.int64), np.ones(n, dtype=np.bool_)
    while missing.any():
        ((sender, message),) = yield Wait(call, Kept if keep else Answers)
        rows = np.array(message.rows, dtype=np.int64)
        if not rows.size or rows.max() >= n or not missing[rows].all():
            raise bad_message(f"site {sender}", "answers that were not asked for")
        missing[rows] = False
        if not keep:
            site.learn(ANSWER, ())
            found[rows] = _opened(secret, message, sender, (len(rows), c))
    return None if keep else found


def pass_on(site: Site, sender: int, message: Classify) -> Task[None]:
    """Take instances to the next node (algorithm 8), or answer at a leaf."""
    node = site.nodes.get(message.node)
    if node is None:
        raise _unknown(Token(site.index, message.node))
    if (
        len(message.rows) != len(message.instances)
        or not message.rows
        or len(message.key) not in (0, _KEY_BYTES)
        or message.to >= site.job.n_sites
        or bool(message.key) != (site.job.answers_to == "asker")
    ):
        raise bad_message(f"site {sender}", "a question that is not well formed")
    site.learn(INSTANCES, ())
    if isinstance(node, Leaf):
        yield from _answer(site, message, node)
        return
    values = site.values_of(message.instances, node.attribute)
    for value in np.unique(values).tolist():
        token = node.children[value]
        at = np.flatnonzero(values == value).tolist()
        rows = tuple(message.rows[i] for i in at)
        those = tuple(message.instances[i] for i in at)
        yield Send(
            token.site,
            Classify(message.call, message.to, message.key, token.node, rows, those),
        )


def _answer(site: Site, message: Classify, leaf: Leaf) -> Task[None]:
    if not message.key:
        site.kept.append((message.instances, leaf.counts))
        yield Send(message.to, Kept(message.call, message.rows))
        return
    plain = np.tile(np.array(leaf.counts, dtype="<i8"), (len(message.rows), 1)).tobytes()
    sealed = SealedBox(PublicKey(message.key)).encrypt(plain)
    yield Send(message.to, Answers(message.call, message.rows, bytes(sealed)))


def _opened(
    secret: PrivateKey, message: Answers, sender: int, shape: tuple[int, int]
) -> NDArray[np.int64]:
    try:
        plain = SealedBox(secret).decrypt(message.sealed)
        return np.frombuffer(plain, dtype="<i8").reshape(shape).astype(np.int64)
    except (CryptoError, ValueError):
        raise bad_message(f"site {sender}", "an answer that does not open") from None


def _unknown(token: Token) -> Exception:
    return Code.UNKNOWN_NODE.error(found=f"the token {token}")
