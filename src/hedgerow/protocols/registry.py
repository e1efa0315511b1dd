"""Protocols by name: the word in jobs, policies and manifests of models, and what is printed."""

from __future__ import annotations

from collections.abc import Sequence

from hedgerow.errors import Code
from hedgerow.protocols.hidden.answers import HIDDEN_TREE
from hedgerow.protocols.hidden.boosting import HIDDEN_BOOSTING
from hedgerow.protocols.hidden.open_id3 import OPEN_TREE
from hedgerow.protocols.hidden.protocol import HiddenProtocol, ServerProtocol
from hedgerow.protocols.hidden.regression import HIDDEN_REGRESSION
from hedgerow.protocols.pivot.boosting import PEER_BOOSTING
from hedgerow.protocols.pivot.logistic.protocol import PEER_LOGISTIC
from hedgerow.protocols.pivot.peer_plan import PeerPlan
from hedgerow.protocols.pivot.protocol import PeerProtocol
from hedgerow.protocols.pivot.trees import PEER_FOREST, PEER_TREE

SERVER_PROTOCOLS: dict[str, ServerProtocol] = {
    "hidden-tree": HIDDEN_TREE,
    "open-tree": OPEN_TREE,
    "hidden-regression": HIDDEN_REGRESSION,
    "hidden-boosting": HIDDEN_BOOSTING,
}
"""What three servers train."""

TOPDOWN = "topdown"
"""What owners publish with a coordinator."""

VERTICAL = "vertical-id3"
"""A tree in pieces, each at the site whose attribute it tests."""

PEER_PROTOCOLS: dict[str, PeerProtocol] = {
    "pivot-tree": PEER_TREE,
    "pivot-forest": PEER_FOREST,
    "pivot-boosting": PEER_BOOSTING,
    "pivot-logistic": PEER_LOGISTIC,
}
"""What peers train, who have shares of what is hidden of it."""

IN_PIECES = (VERTICAL, *PEER_PROTOCOLS)
"""What lies with those who hold the columns, and is asked by them alone."""

EVALUATION = "evaluation"
"""Of a hidden model, on held-out rows."""

PROTOCOLS = (*SERVER_PROTOCOLS, TOPDOWN, *IN_PIECES, EVALUATION)

_OLD_NAMES = {
    "trees": "hidden-tree",
    "open": "open-tree",
    "regression": "hidden-regression",
    "boosting": "hidden-boosting",
    "ppid3": VERTICAL,
}


def current_name(name: str) -> str:
    """Return what a protocol is called now, of a name that an older version may have written."""
    return _OLD_NAMES.get(name, name)


def server_protocol(name: str) -> ServerProtocol:
    """Return the protocol of that name; H501 for one that is not of the three servers."""
    protocol = SERVER_PROTOCOLS.get(name)
    if protocol is None:
        raise Code.BAD_PARAMETER.error(
            expected=f"a protocol among {', '.join(SERVER_PROTOCOLS)}", found=repr(name)
        )
    return protocol


def is_published(name: str) -> bool:
    """Whether everybody sees what was made; hidden models are asked instead."""
    protocol = SERVER_PROTOCOLS.get(name)
    return name == TOPDOWN or (protocol is not None and not isinstance(protocol, HiddenProtocol))


def hidden_protocol(name: str) -> HiddenProtocol:
    """Return the protocol of that name; H501 for one that publishes, or is not of the servers."""
    protocol = server_protocol(name)
    if not isinstance(protocol, HiddenProtocol):
        raise Code.BAD_PARAMETER.error(
            expected="a model that is hidden, which the servers answer for",
            found=f"one of protocol {name!r}",
            fix="take what the servers publish (`hedgerow models fetch`); a tree answers by itself",
        )
    return protocol


def peer_protocol(plan: PeerPlan) -> PeerProtocol:
    """Return the protocol of a plan among peers."""
    return next(one for one in PEER_PROTOCOLS.values() if one.plan_type is type(plan))


def askers(protocol: str, analysts: Sequence[str]) -> str:
    """Say who may ask a model."""
    if protocol in IN_PIECES:
        return "lies in pieces with those who hold columns, who ask each other"
    return f"may be asked by: {', '.join(analysts)}" if analysts else "published to everybody"
