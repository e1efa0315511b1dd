"""What is given away: mechanisms, ledger, declared leakage, auditor."""

from hedgerow.privacy.accounting import Guarantee, Relation
from hedgerow.privacy.entries import Budget, Reservation
from hedgerow.privacy.leakage import Leakage
from hedgerow.privacy.ledger import Ledger
from hedgerow.privacy.mechanisms import (
    DiscreteGaussian,
    ExponentialMechanism,
    NoisyMax,
    PermuteAndFlip,
    TwoSidedGeometric,
)
from hedgerow.privacy.opening import Opening
from hedgerow.privacy.planning import noise_for_rate, rho_for
from hedgerow.privacy.release import Release, register_mechanism
from hedgerow.privacy.scopes import EACH, ROOT, By, Partition, Scope, part, step
from hedgerow.privacy.source import NoiseSource

__all__ = [
    "EACH",
    "ROOT",
    "Budget",
    "By",
    "DiscreteGaussian",
    "ExponentialMechanism",
    "Guarantee",
    "Leakage",
    "Ledger",
    "NoiseSource",
    "NoisyMax",
    "Opening",
    "Partition",
    "PermuteAndFlip",
    "Relation",
    "Release",
    "Reservation",
    "Scope",
    "TwoSidedGeometric",
    "noise_for_rate",
    "part",
    "register_mechanism",
    "rho_for",
    "step",
]
