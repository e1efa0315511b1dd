"""Three servers, replicated shares, at most one of them curious."""

from hedgerow.secure.replicated.core import EVERYONE, SERVERS
from hedgerow.secure.replicated.engine import ReplicatedEngine

__all__ = ["EVERYONE", "SERVERS", "ReplicatedEngine"]
