"""Mechanisms on integers: one file each, with its law and its privacy argument.

The same laws are drawn in the clear here and under secure computation elsewhere.
"""

from hedgerow.privacy.mechanisms.choice import ByRejection, Choice
from hedgerow.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from hedgerow.privacy.mechanisms.exponential import ExponentialMechanism
from hedgerow.privacy.mechanisms.mechanism import LIMIT, Mechanism
from hedgerow.privacy.mechanisms.noisy_max import NoisyMax
from hedgerow.privacy.mechanisms.permute_and_flip import PermuteAndFlip
from hedgerow.privacy.mechanisms.two_sided_geometric import TwoSidedGeometric

__all__ = [
    "LIMIT",
    "ByRejection",
    "Choice",
    "DiscreteGaussian",
    "ExponentialMechanism",
    "Mechanism",
    "NoisyMax",
    "PermuteAndFlip",
    "TwoSidedGeometric",
]
