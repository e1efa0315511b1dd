"""Tables and what is public about them: domains, reading, encoding, padding, partitions."""

from hedgerow.tables.attribute import Attribute, Target
from hedgerow.tables.batches import Batches
from hedgerow.tables.domain import Domain
from hedgerow.tables.encode import Encoded, encode
from hedgerow.tables.padding import check_capacity, pad
from hedgerow.tables.partition import vertical
from hedgerow.tables.reading import read_batches, read_table
from hedgerow.tables.sources.sql import SqlQuery, read_sql
from hedgerow.tables.sources.text import TextFormat

__all__ = [
    "Attribute",
    "Batches",
    "Domain",
    "Encoded",
    "SqlQuery",
    "Target",
    "TextFormat",
    "check_capacity",
    "encode",
    "pad",
    "read_batches",
    "read_sql",
    "read_table",
    "vertical",
]
