"""Views of peers: of two tables that differ for one peer alone, and of which the same is opened."""

import numpy as np
import pytest

from hedgerow.audit.catalogue.pivot import LAST, OWNERS, peer_views, records, views
from hedgerow.privacy import NoiseSource
from hedgerow.secure.additive import AdditiveEngine


def test_tables_differ_in_one_record_of_the_last_peer() -> None:
    for target in peer_views():
        for _, one, other in target.pairs:
            differ = one.bins != other.bins
            assert not differ[:-1].any()
            assert all(OWNERS[j] == LAST for j in np.flatnonzero(differ[-1]))
            assert (one.classes[:-1] == other.classes[:-1]).all()
            assert differ.any() or one.classes[-1] != other.classes[-1]


@pytest.mark.parametrize("hide", ["nothing", "thresholds"])
def test_what_is_opened_is_the_same(hide: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the tree would be what is found, of which nobody claims anything."""
    opened: list[dict[str, list[int]]] = []
    plain = AdditiveEngine.open

    def kept(engine: AdditiveEngine, x: object, name: str, to: object) -> object:
        found = plain(engine, x, name, to)
        opened[-1][name] = np.asarray(found).tolist()
        return found

    monkeypatch.setattr(AdditiveEngine, "open", kept)
    sizes = set()
    for table in (records(), records(value=1), records(label=1)):
        opened.append({})
        source = NoiseSource.insecure_seeded(1)
        sizes.add(views(hide, "none", table, 5, source).shape)  # type: ignore[arg-type]
    assert opened[0] == opened[1] == opened[2]
    assert len(opened[0]) >= 3
    assert len(sizes) == 1
