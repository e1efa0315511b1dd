"""The two attacks of section 5.1 of the paper succeed where the tree is seen, else they fail."""

import pytest

from reproduce.paper_003.attacks import labels_by_collusion, sides_by_collusion


@pytest.mark.parametrize(
    ("attack", "gained"), [(labels_by_collusion, 0.2), (sides_by_collusion, 0.1)]
)
def test_it_depends_on_what_is_seen(attack: object, gained: float) -> None:
    assert callable(attack)
    seen, hidden = attack("nothing"), attack("thresholds")
    assert seen.right > seen.base + gained
    assert hidden.right < hidden.base + 0.05


def test_an_attribute_that_is_seen_and_what_everybody_knows_of_it() -> None:
    hidden = sides_by_collusion("thresholds")
    assert hidden.told is not None
    assert hidden.told > hidden.base + 0.1
