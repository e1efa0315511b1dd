"""``hedgerow doctor``: whether Hedgerow works on this machine, and in the folder of a party."""

from hedgerow.cli.doctor.verb import doctor

__all__ = ["doctor"]
