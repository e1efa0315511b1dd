"""What members tell of a ledger, on the cards of who asks them."""

from itertools import combinations

from hedgerow.parties.roles.catalogue import _ledger_lines
from hedgerow.privacy import ROOT, Ledger, Release
from hedgerow.reports.audiences import cards, totals_of
from hedgerow.reports.party_told import _totals


def test_each_server_alone_has_the_card_that_its_own_page_has() -> None:
    ledger = Ledger()
    ledger.charge(Release("noisy max", 1.0, 0.0, 1.0, ROOT, "analyst", "answers"))
    for pair in combinations([f"server {i}" for i in range(3)], 2):
        ledger.mark_not_private("two servers hold all shares", pair)
    told = cards(_totals(_ledger_lines(ledger)), {})
    assert "Server 0, server 1, server 2, each alone" in [card.who for card in told]
    assert set(told) == set(cards(totals_of(ledger), {}))
