"""Put on the path of a party's processes: those that compute note what they send and open."""

import sys

if any(
    "hedgerow.parties.runs.worker" in one or "hedgerow.net.launch" in one for one in sys.orig_argv
):
    from tests.everywhere.transcripts import note_process

    note_process()
