"""Privacy curves: the figures are the ledger's, the picture is a picture."""

import pytest

from hedgerow.privacy import ROOT, Ledger, Release, step
from hedgerow.privacy.curve import epsilon_after_releases, epsilon_over_delta
from hedgerow.reports.privacy_curve import privacy_curve


def ledger_of(*epsilons: float, rho: float | None = None) -> Ledger:
    ledger = Ledger(delta=1e-6)
    for i, epsilon in enumerate(epsilons):
        scope = ROOT / step(f"level {i}")
        ledger.charge(
            Release("two-sided geometric", epsilon, 0.0, 1.0, scope, "public", f"level {i}")
        )
    if rho is not None:
        scope = ROOT / step("rounds")
        inf = float("inf")
        ledger.charge(
            Release("discrete gaussian", inf, 0.0, 1.0, scope, "public", "rounds", rho=rho, times=9)
        )
    return ledger


def test_epsilon_falls_as_delta_grows_and_is_what_the_ledger_says() -> None:
    ledger = ledger_of(*[0.1] * 20)
    points = epsilon_over_delta(ledger)
    epsilons = [point.epsilon for point in points]
    assert epsilons == sorted(epsilons, reverse=True)
    assert epsilons[0] <= 2.0
    assert epsilons[-1] < 1.5
    found = ledger.tightest("public", points[6].delta)
    assert points[6].epsilon == found.epsilon
    assert found.method == f"{points[6].method}, all charges fixed in advance"


@pytest.mark.parametrize("rho", [None, 0.01])
def test_epsilon_adds_up_to_the_total(rho: float | None) -> None:
    ledger = ledger_of(0.5, 0.25, 0.25, rho=rho)
    points = epsilon_after_releases(ledger)
    epsilons = [total.epsilon for _, total in points]
    assert epsilons == sorted(epsilons)
    assert epsilons[0] == pytest.approx(0.5, abs=1e-5)
    assert epsilons[-1] == ledger.total().epsilon
    assert [release for release, _ in points] == list(ledger.releases)


def test_of_many_releases_the_last_is_there() -> None:
    ledger = ledger_of(*[0.01] * 250)
    points = epsilon_after_releases(ledger)
    assert len(points) == 100
    assert points[-1][1].epsilon == pytest.approx(2.5)


def test_the_picture_is_a_png_also_of_what_is_not_private() -> None:
    ledger = ledger_of(0.5, rho=0.01)
    plain = privacy_curve(ledger, title="a tree")
    assert plain.startswith(b"\x89PNG")
    ledger.mark_not_private("the noise was seeded")
    assert privacy_curve(ledger, title="a tree") != plain
    assert privacy_curve(Ledger()).startswith(b"\x89PNG")
