"""``hedgerow domain``: what is public about a table, drafted with its owner and checked."""

from hedgerow.cli.tables.domain.verbs import app

__all__ = ["app"]
