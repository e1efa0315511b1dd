"""Who may learn how much about one person: the totals of a ledger, in figures and in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from hedgerow.privacy import Ledger
from hedgerow.privacy.accounting import Guarantee, Relation
from hedgerow.privacy.release import PUBLIC, Audience
from hedgerow.privacy.statement import fold_roles, summary_row

_WEAK = 10.0
"""Above this epsilon, e^epsilon is so large that the promise says little."""
_ANY_TWO, _AND = "any two of ", " + "


class AudienceCard(NamedTuple):
    """What an audience, or several that are alike, may learn about one person.

    `tone` is "good", "warn" or "bad".
    """

    who: str
    epsilon: float
    delta: float
    tone: str
    badge: str
    sentence: str

    @property
    def figure(self) -> str:
        """Epsilon as ledgers print it."""
        return f"{self.epsilon:.6g}" if math.isfinite(self.epsilon) else "no finite ε"


def totals_of(ledger: Ledger) -> dict[str, Guarantee]:
    """Return the total of everyone whom a ledger names, and of the coalitions that it marks."""
    found = {name: ledger.total(name) for name in ledger.known_audiences()}
    marked = [mark.audiences for mark in ledger.not_private if len(mark.audiences) > 1]
    return found | {" + ".join(group): ledger.coalition(group) for group in marked}


def cards(totals: Mapping[str, Guarantee], names: Mapping[str, str]) -> list[AudienceCard]:
    """Return a card for each audience; members of a role who are alike share one."""
    rows = [summary_row(audience, total, None) for audience, total in totals.items()]
    folded = {row["audience"]: row for row in fold_roles(rows)}
    alike: dict[tuple[str, float, float, str], list[str]] = {}
    for audience, row in folded.items():
        alone = not members_of(audience)
        role = Audience.parse(audience).role if alone else audience
        named = alone and Audience.parse(audience).name is not None
        key = (f"{role} {named}", row["epsilon"], row["delta"], row["why"])
        alike.setdefault(key, []).append(audience)
    return [
        # Whoever has a card of their own is not meant by that of the public.
        _card(_who(audiences, names, others=len(folded) > 1), epsilon, delta, why)
        for (_, epsilon, delta, why), audiences in alike.items()
    ]


def members_of(audience: str) -> tuple[str, ...]:
    """Return who is in a coalition, as a ledger writes it; nobody of a single audience."""
    if audience.startswith(_ANY_TWO):
        return tuple(audience.removeprefix(_ANY_TWO).split(", "))
    return tuple(audience.split(_AND)) if _AND in audience else ()


def named(audience: str, names: Mapping[str, str]) -> str:
    """Return an audience, or several, as a ledger writes them, with who that is behind each."""
    any_two = audience.startswith(_ANY_TWO)
    each = members_of(audience) or (audience,)
    said = [f"{one} ({names[one]})" if one in names and names[one] != one else one for one in each]
    return _ANY_TWO + ", ".join(said) if any_two else _AND.join(said)


def _who(audiences: list[str], names: Mapping[str, str], *, others: bool) -> str:
    if audiences == [PUBLIC]:
        return "Everybody else" if others else "Everybody"
    first = audiences[0]
    members = [names.get(one, one) for one in members_of(first)]
    if len(audiences) == 1 and first.startswith(_ANY_TWO):
        return f"Any two of {', '.join(members)} together"
    if len(audiences) == 1 and members:
        return f"{' and '.join(members)} together"
    known = Audience.parse(first)
    if known.name is None:
        return names.get(first, f"All {known.role}s together")
    said = ", ".join(names.get(one, one) for one in audiences)
    text = f"{said}, each alone" if len(audiences) > 1 else said
    # Names of members are as they are.
    return text if first in names else text[:1].upper() + text[1:]


def _factor(epsilon: float) -> str:
    """Return e to this power, which may be larger than any number here."""
    return f"{math.exp(epsilon):.3g}" if epsilon < 700 else f"e to the power of {epsilon:.6g}"


def _card(who: str, epsilon: float, delta: float, why: str) -> AudienceCard:
    if not Guarantee(epsilon, delta, Relation.ADD_REMOVE).private:
        why = why.removeprefix("no finite epsilon: ")
        return AudienceCard(
            who,
            math.inf,
            delta,
            "bad",
            "nothing promised",
            f"No finite epsilon: what they see may tell exact facts about one person. Why: {why}.",
        )
    if epsilon == 0 and delta == 0:
        said = "Nothing that they are shown was computed from anybody's record."
        return AudienceCard(who, epsilon, delta, "good", "learns nothing", said)
    said = (
        "What they see moves the odds of any statement about one person by a factor of at most "
        f"{_factor(epsilon)}, compared with a training without that person's record"
    )
    said += f"; a chance of {delta:.2g} is left aside." if delta else "."
    if epsilon > _WEAK:
        said += " So large a factor protects little."
        return AudienceCard(who, epsilon, delta, "warn", "large epsilon", said)
    return AudienceCard(who, epsilon, delta, "good", "bounded", said)
