"""Put on the path of a party's processes: those that compute note what they send and open."""

import sys

if any("hedgerow.net.launch" in one for one in sys.orig_argv):
    from tests.everywhere.transcripts import note_process

    note_process(sys.orig_argv)
else:
    from tests.everywhere.transcripts import note_process
    from tests.everywhere.workers import before_attempts

    before_attempts(lambda *arguments: note_process(["worker", *arguments]))
