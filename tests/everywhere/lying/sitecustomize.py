"""Put on the path of a party's processes: its workers lie, as ``lie.json`` in its folder says."""

import sys

if "hedgerow.parties.runs.worker" in sys.orig_argv:
    from tests.everywhere.liars import lie

    lie(*sys.orig_argv[sys.orig_argv.index("hedgerow.parties.runs.worker") + 1 :][:3])
