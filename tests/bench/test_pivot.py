"""The benchmark of Pivot runs, with answers, on tiny tables."""

import time
from dataclasses import replace

import numpy as np
import pytest

from bench.consortium.wan import DELAY
from bench.pivot import (
    PUBLISHED,
    TWO_PARTIES,
    Case,
    activations,
    far_rows,
    hiding,
    published,
    rows_of,
    run_far,
)
from hedgerow.net.network import Network, Route

pytestmark = pytest.mark.slow


def test_a_tiny_case() -> None:
    (found,) = rows_of("tiny", Case(n=40, m=2, each=2, classes=2, depth=1, asked=3))
    assert found["nodes"] == 3
    assert found["offline_mb"] > found["online_mb"] > 0
    assert found["answers"] > 0


def test_a_tiny_case_of_logistic_regression() -> None:
    (found,) = rows_of("tiny", Case(n=40, m=2, each=2, classes=2, epochs=2, asked=3))
    assert found["epoch_rounds"] > 0
    assert found["offline_mb"] + found["online_mb"] > found["epoch_mb"] > 0
    assert found["answers"] > 0


def test_a_tiny_case_that_was_prepared() -> None:
    case = Case(n=40, m=2, each=2, classes=2, depth=1)
    plain, prepared = (rows_of("tiny", replace(case, ahead=ahead))[0] for ahead in (False, True))
    assert prepared["offline_mb"] < 0.5 * plain["offline_mb"]
    assert prepared["online_mb"] == plain["online_mb"]
    assert prepared["ahead_s"] > plain["ahead_s"]


def test_a_tiny_case_of_boosting() -> None:
    case = Case(n=40, m=2, each=(2, 1), classes=2, depth=1, asked=3, rounds=2)
    (found,) = rows_of("tiny", case, published=PUBLISHED)
    assert found["nodes"] == 6
    assert found["published"]["Pivot"] == 1_680
    assert len(TWO_PARTIES.owners) == 15
    (probabilities,) = activations(70, 2, 3)
    assert probabilities["offline_mb"] > probabilities["online_mb"] > 0


def there_and_back(network: Network) -> float:
    """Return how long party 0 waits for an answer to its second message."""
    begin = 0.0
    for step, way in enumerate([(0, 1), (1, 0)] * 2):
        if step == 2:
            begin = time.perf_counter()
        mine = {0: np.zeros(1, np.uint8)} if network.local == (way[0],) else {}
        network.exchange(f"step {step}", [Route(*way, (1,), "uint8")], mine)
    return time.perf_counter() - begin


def test_a_round_trip_behind_relays() -> None:
    assert run_far(there_and_back, 2, delay=DELAY)[0].value >= 0.04


def test_a_tiny_case_far_apart() -> None:
    (found,) = far_rows(Case(n=40, m=2, each=2, classes=2, depth=1))
    # No round can be shorter than the way; both runs have the same rounds.
    assert found["ours"] >= DELAY * found["rounds"] > 0


def test_ours_beside_paillier_has_names_and_ratios() -> None:
    packed, unpacked = published((30,))
    assert packed["case"].startswith("(b) paillier packed: 30 rows")
    assert unpacked["case"].startswith("(b) paillier unpacked: 30 rows")
    for found in (packed, unpacked):
        assert found["ratio"] == found["peer"] / found["ours"]
        assert found["peer_cpu"] > 0 < found["ours_cpu"]
    assert unpacked["peer"] > packed["peer"] > packed["ours"]


def test_every_level_of_hiding_has_answers() -> None:
    found = hiding(300)
    assert [row["case"][:3] for row in found] == ["(d)", "(e)"] * 4
    for training, answer in zip(found[::2], found[1::2], strict=True):
        assert 0 < answer["ours"] < training["ours"]
        assert answer["rounds"] > 0 < answer["mb"]
