"""Put on the path of a party's processes: its workers lie, as ``lie.json`` in its folder says."""

from tests.everywhere.liars import lie
from tests.everywhere.workers import before_attempts

before_attempts(lambda folder, run, attempt, *_: lie(folder, run, attempt))
