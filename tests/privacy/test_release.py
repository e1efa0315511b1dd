"""Releases, audiences and the register of mechanisms."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given

from hedgerow.errors import PrivacyError
from hedgerow.jsonfile import shown
from hedgerow.privacy.mechanisms.exponential import bounded_range_rho
from hedgerow.privacy.release import (
    Audience,
    Release,
    mechanism_rule,
    pure_rho,
    register_mechanism,
)
from tests.privacy.release_strategies import gaussian, release, releases


@pytest.mark.parametrize(
    "changes",
    [
        {"epsilon": math.nan},
        {"epsilon": -0.1},
        {"epsilon": -math.inf},
        {"epsilon": "1"},
        {"epsilon": True},
        {"epsilon": None},
        {"epsilon": 1j},
        {"epsilon": 10**400},
        {"epsilon": 10**5000},
        {"delta": math.nan},
        {"delta": -1e-9},
        {"delta": 1.1},
        {"sensitivity": 0},
        {"sensitivity": -1},
        {"sensitivity": math.inf},
        {"sensitivity": math.nan},
        {"scope": "tree 3"},
        {"scope": None},
        {"reason": ""},
        {"reason": "a\nb"},
        {"reason": None},
        {"claimed": math.nan},
        {"claimed": -1},
        {"times": 0},
        {"times": 1.5},
        {"times": True},
        {"times": 2**53 + 1},
        {"times": 10**400},
        {"times": 10**5000},
        {"variables": 0},
        {"audience": "everyone"},
        {"audience": "server  0"},
        {"audience": "server 0\n"},
        {"audience": "public 1"},
        {"audience": "server "},
        {"audience": None},
        {"audience": ""},
    ],
    ids=lambda changes: "=".join(map(shown, *changes.items())),
)
def test_what_is_not_well_defined_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(PrivacyError, match="H205"):
        release(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"rho": -0.1},
        {"rho": math.nan},
        {"rho": math.inf},
        {"rho": "1"},
        {"rho": True},
        {"epsilon": 1.0},
        {"rho": None, "epsilon": 1.0},  # no pure epsilon holds
        {"rho": None, "sample_rate": 0.5},
        {"sample_rate": 0.0},
        {"sample_rate": -0.5},
        {"sample_rate": 1.5},
        {"sample_rate": math.nan},
        {"sample_rate": None},
        {"mechanism": "exact"},
        {"mechanism": "noisy max"},
    ],
    ids=lambda changes: "=".join(map(shown, *list(changes.items())[:1])),
)
def test_odd_releases_by_rho_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(PrivacyError, match="H205"):
        gaussian(**changes)


def test_a_release_may_state_its_rho() -> None:
    event = gaussian(np.float32(0.5), sample_rate=0.25)
    assert (event.rho, event.sample_rate, event.epsilon) == (0.5, 0.25, math.inf)
    assert event.bounded
    assert release().bounded
    assert not release(math.inf).bounded
    assert not gaussian(rho=None).bounded
    with pytest.raises(PrivacyError, match="H205"):
        release(sample_rate=0.5)
    assert Release.from_dict(event.to_dict()) == event


def test_releases_of_files_from_before_rho_are_read() -> None:
    event = release(0.5)
    data = event.to_dict()
    del data["rho"], data["sample_rate"]
    assert Release.from_dict(data) == event
    with pytest.raises(PrivacyError, match="H205"):
        Release.from_dict({**data, "rho": None})


@pytest.mark.parametrize("mechanism", ["laplace of unknown make", "", None, 3, ["noisy max"]])
def test_an_unknown_mechanism_is_refused(mechanism: object) -> None:
    with pytest.raises(PrivacyError, match="H204") as error:
        release(mechanism=mechanism)
    assert "noisy max" in error.value.expected


def test_numbers_become_plain_floats() -> None:
    event = release(np.float32(0.5), delta=0, sensitivity=np.int64(2), times=np.int64(3))
    assert (event.epsilon, event.delta, event.sensitivity, event.times) == (0.5, 0.0, 2.0, 3)
    assert {type(v) for v in (event.epsilon, event.delta, event.sensitivity)} == {float}
    assert release(math.inf).epsilon == math.inf
    assert release(0).epsilon == 0
    assert release(times=2**53).times == 2**53


def test_a_release_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        release().epsilon = 2.0  # type: ignore[misc]


def test_a_mechanism_without_guarantee_takes_no_finite_epsilon() -> None:
    register_mechanism("test: fixed-point laplace", argument="approximate law", guarantee=False)
    event = release(math.inf, mechanism="test: fixed-point laplace", claimed=1.0)
    assert event.claimed == 1.0
    for mechanism in ("test: fixed-point laplace", "exact"):
        with pytest.raises(PrivacyError, match="H205"):
            release(1.0, mechanism=mechanism)


def test_a_mechanism_is_registered_once() -> None:
    rule = register_mechanism("test: once", argument="a proof")
    assert (
        register_mechanism("test: once", argument="a proof") == rule == mechanism_rule("test: once")
    )
    with pytest.raises(PrivacyError, match="H205"):
        register_mechanism("test: once", argument="a proof", rho=bounded_range_rho)
    with pytest.raises(PrivacyError, match="H205"):
        register_mechanism("test: no argument", argument=" ")


@pytest.mark.parametrize(
    ("mechanism", "rho"),
    [
        ("two-sided geometric", 0.5),
        ("noisy max", 0.5),
        ("permute-and-flip", 0.5),
        ("exponential mechanism", 0.125),
    ],
)
def test_conversions_of_the_known_mechanisms(mechanism: str, rho: float) -> None:
    assert mechanism_rule(mechanism).rho(1.0) == rho
    assert mechanism_rule(mechanism).rho(2.0) == 4 * rho


def renyi(p: np.ndarray, q: np.ndarray, order: float) -> float:
    return float(np.log(np.sum(p**order * q ** (1 - order))) / (order - 1))


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 2.0, 5.0])
@pytest.mark.parametrize("order", [1.01, 2.0, 10.0, 50.0])
def test_rho_bounds_renyi_divergences(epsilon: float, order: float) -> None:
    """Two-point laws are the worst: the loss is t or t - epsilon (bounded range), or +-epsilon."""
    response = np.array([1, math.exp(-epsilon)]) / (1 + math.exp(-epsilon))
    assert renyi(response, response[::-1], order) <= order * pure_rho(epsilon)
    tightest = 0.0
    for t in np.linspace(0, epsilon, 101)[1:-1]:
        # P = (a, 1-a), Q = (a e^-t, (1-a) e^(epsilon-t)) with Q summing to 1.
        a = (math.exp(epsilon - t) - 1) / (math.exp(epsilon - t) - math.exp(-t))
        p = np.array([a, 1 - a])
        q = p * np.exp([-t, epsilon - t])
        assert q.sum() == pytest.approx(1)
        tightest = max(tightest, renyi(p, q, order))
    assert tightest <= order * bounded_range_rho(epsilon)
    if epsilon < 0.1 and order < 3:
        assert tightest > 0.99 * order * bounded_range_rho(epsilon)


@given(releases())
def test_plain_data_round_trip(event: Release) -> None:
    data = event.to_dict()
    assert Release.from_dict(data) == event
    assert math.inf not in data.values()


@pytest.mark.parametrize("damage", [{"epsilon": None}, {"extra": 1}, {"mechanism": "unheard of"}])
def test_damaged_plain_data_is_refused(damage: dict[str, object]) -> None:
    with pytest.raises(PrivacyError, match=r"H20[45]"):
        Release.from_dict({**release().to_dict(), **damage})
    with pytest.raises(PrivacyError, match="H205"):
        Release.from_dict({"epsilon": 1.0})
    with pytest.raises(PrivacyError, match="H205"):
        Release.from_dict([1])


@pytest.mark.parametrize(
    "text", ["public", "server 0", "analyst", "owner clinic north", "peer a.b"]
)
def test_audiences_read_and_print_alike(text: str) -> None:
    assert str(Audience.parse(text)) == text


def test_who_sees_what() -> None:
    def sees(viewer: str, audience: str) -> bool:
        return Audience.parse(viewer).sees(Audience.parse(audience))

    assert all(sees(viewer, "public") for viewer in ("public", "server 0", "analyst"))
    assert not sees("public", "server 0")
    assert not sees("server 0", "server 1")
    assert not sees("server 0", "owner 0")
    # A whole role: told to all of them, and all of them together.
    assert sees("analyst ana", "analyst")
    assert sees("analyst", "analyst ana")
    assert not sees("analyst ben", "analyst ana")


def test_who_belongs_to_whom() -> None:
    def within(one: str, other: str) -> bool:
        return Audience.parse(one).is_within(Audience.parse(other))

    assert within("analyst ana", "analyst")
    assert within("analyst ana", "public")
    assert within("server 0", "server 0")
    assert not within("analyst", "analyst ana")
    assert not within("public", "analyst")
    assert not within("server 0", "server 1")
