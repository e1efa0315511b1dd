"""Views of peers: of two inputs that differ for one peer alone, and of which the same is opened."""

from typing import Any

import numpy as np
import pytest

from hedgerow.audit.catalogue.pivot import LAST, OWNERS, N, PeerRecords, peer_views
from hedgerow.privacy import NoiseSource
from hedgerow.secure.additive import AdditiveEngine

SOUND = [
    # Steps of others, which take longer on shares of a hidden tree or of several.
    pytest.param(target, id=target.name, marks=[pytest.mark.slow] * ("basic" not in target.name))
    for target in peer_views()
    if target.sound
]


def test_tables_differ_at_the_last_peer() -> None:
    tables = [pair for target in peer_views() for pair in target.pairs]
    for label, one, other in tables:
        if not isinstance(one, PeerRecords):
            continue
        differ = one.bins != other.bins
        # Of what is opened, one record decides; the target is at the last peer, too.
        opened = label.endswith("last peer")
        assert not (differ[:-1].any() and opened)
        assert all(OWNERS[j] == LAST for j in np.flatnonzero(differ.any(axis=0)))
        assert not (opened and (one.classes[:-1] != other.classes[:-1]).any())
        assert differ.any() or (one.classes != other.classes).any()


@pytest.mark.parametrize("target", SOUND)
def test_what_is_opened_is_the_same(target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the tree would be what is found, of which nobody claims anything."""
    opened: list[dict[str, list[int]]] = []
    plain = AdditiveEngine.open

    def kept(engine: AdditiveEngine, x: object, name: str, to: object) -> object:
        found = plain(engine, x, name, to)
        opened[-1][name] = np.asarray(found).tolist()
        return found

    monkeypatch.setattr(AdditiveEngine, "open", kept)
    for _, *both in target.pairs:
        sizes = set()
        for one in both:
            opened.append({})
            sizes.add(target.run(one, 5, NoiseSource.insecure_seeded(1)).shape)
        assert opened[-1].keys() == opened[-2].keys()
        for name, found in opened[-1].items():
            off = np.abs(np.subtract(found, opened[-2][name], dtype=np.int64)).max()
            # Probabilities of rows are rounded up or down by chance, before they are added up.
            assert off <= (N if name.startswith("leaf values") else 0)
        assert len(sizes) == 1
    # Hidden boosting opens nothing at all.
    assert bool(opened[-1]) == ("hidden" not in target.name)
