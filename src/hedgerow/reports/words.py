"""What a report says in plain words: who computed, who sees the model, and on what that rests."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from hedgerow.reports.facts import Facts, Setting
from hedgerow.trees.boosted import Boosted
from hedgerow.trees.tree import Tree


class SettingWords(NamedTuple):
    """How a setting is told to somebody who has never heard of it."""

    how: str
    seen: str
    trust: str


SETTINGS: dict[Setting, SettingWords] = {
    "file": SettingWords(
        "It is described here from its file alone: who computed it, and where, is not written "
        "there.",
        "Whoever has the file sees all of the model.",
        "What is promised about people is what its ledger says, if the file is as it was made.",
    ),
    "clear": SettingWords(
        "It was trained in the clear, by one party who holds the whole table.",
        "Whoever has the model sees all of it.",
        "No noise was added: nothing is promised about anybody whose record was used.",
    ),
    "holder": SettingWords(
        "Whoever holds the rows trained it, and added noise to everything that leaves the table.",
        "The model is made to be published: whoever has it sees all of it.",
        "Whoever trained it has seen the rows, and is trusted with them.",
    ),
    "owners": SettingWords(
        "Owners answered questions about their own rows, with noise in every answer; no row left "
        "its owner.",
        "The tree is published to everybody.",
        "Owners need to trust nobody but themselves for the noise in their own answers.",
    ),
    "owners and servers": SettingWords(
        "Owners counted their own rows for every question; three servers added the counts up on "
        "secret shares, and drew the noise there. No row left its owner.",
        "The tree is published to everybody.",
        "This rests on no two of the three servers working together, and on each of them keeping "
        "to the protocol.",
    ),
    "servers": SettingWords(
        "Three servers trained it on secret shares of the owners' rows; no server saw a row.",
        "The finished model, with its noise, is published to everybody.",
        "This rests on no two of the three servers working together, and on each of them keeping "
        "to the protocol.",
    ),
    "hidden servers": SettingWords(
        "Three servers trained it on secret shares of the owners' rows; no server saw a row, a "
        "count or a split.",
        "The model stays in shares that no single server can read; analysts may ask it, and see "
        "answers alone.",
        "This rests on no two of the three servers working together, and on each of them keeping "
        "to the protocol.",
    ),
    "evaluating servers": SettingWords(
        "Three servers compared, on secret shares, what a hidden model answers for held-out rows "
        "with their classes; no server saw a row, a class or an answer.",
        "One analyst gets the table of counts, and nobody else sees any of it.",
        "This rests on no two of the three servers working together, and on each of them keeping "
        "to the protocol.",
    ),
    "sites": SettingWords(
        "Sites that hold different columns of the same records grew it together; no column left "
        "its site.",
        "Every site keeps the nodes that test its own columns; nobody has the whole tree.",
        "This rests on all sites keeping to the protocol. On the way they learn some exact "
        "numbers, which are listed below.",
    ),
    "sites and servers": SettingWords(
        "Sites that hold different columns of the same records grew it together; three servers "
        "counted for them on secret shares. No column left its site.",
        "Every site keeps the nodes that test its own columns; nobody has the whole tree.",
        "This rests on no two of the three servers working together, and on all who take part "
        "keeping to the protocol.",
    ),
    "peers": SettingWords(
        "Peers who hold different columns of the same records trained it together on secret "
        "shares; no column left its peer.",
        "The peers see what the job lets them see of the model, and nobody else sees any of it.",
        "This rests on all peers keeping to the protocol, and on at least one of them not working "
        "together with the others.",
    ),
    "told": SettingWords(
        "Other members of the consortium have trained it; whoever made this page took no part.",
        "What is known of it here, they have told.",
        "On what it rests, they know.",
    ),
}

NOT_PROMISED = (
    "Epsilon is about one record. Several records of one person add up; what is true of a whole "
    "group can be learned, and is what the model is for.",
    "Only what the ledger lists is counted. Times, names, and sizes that the parties agreed on, "
    "such as the room for records, are public, and so are attributes and classes.",
    "Other models of the same people cost their own epsilon: accounts add them up, this page does "
    "not.",
    "Where few records of the training came, as with missing or unlisted values, an answer says "
    "little: noise alone may have made it, and its probability may be 1 all the same.",
    "How good or how fair the model is for a group is not measured here.",
)


_STEPS = {
    "keys": "what shared coins are made of",
    "and": "products of bits",
    "mul": "products of numbers",
    "matmul": "products of matrices",
    "addends": "numbers into bits",
    "b2a": "bits into numbers",
    "extend": "numbers into a wider ring",
    "truncate": "numbers without their last bits",
    "open": "what was opened",
    "farewell": "the word that all are done",
}


def steps_in_words(names: Collection[str]) -> str:
    """Return what those steps are that have the short names of operations on shares."""
    said = [f"{name}, {words}" for name, words in _STEPS.items() if name in names]
    return f"Steps on secret shares: {'; '.join(said)}." if said else ""


def model_noun(facts: Facts) -> str:
    """Return what was trained, with what it answers, for the middle of a sentence."""
    target = None if facts.domain is None else facts.domain.target
    if target is None:
        return facts.kind
    if target.classes is None:
        low, high = target.bounds or (0.0, 0.0)
        return f"{facts.kind} that estimates {target.name} (from {low:g} to {high:g})"
    classes = [str(one) for one in target.classes]
    listed = ", ".join(classes[:5]) + (", ..." if len(classes) > 5 else "")
    return f"{facts.kind} that answers {target.name} ({listed})"


def kind_of(model: object) -> str:
    """Return what sort of model this is."""
    if isinstance(model, Tree):
        return "a decision tree"
    n = len(model.trees)  # type: ignore[attr-defined]
    if isinstance(model, Boosted):
        return f"a boosted model of {n:,} functions"
    return f"a forest of {n:,} trees"
