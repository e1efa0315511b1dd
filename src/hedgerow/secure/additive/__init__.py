"""Two to ten peers, additive shares, all but one of them curious."""

from hedgerow.secure.additive.core import EVERYONE
from hedgerow.secure.additive.engine import AdditiveEngine

__all__ = ["EVERYONE", "AdditiveEngine"]
