"""The part of a tree at one site, as its model has it, and as the version before wrote it."""

from pathlib import Path

from hedgerow.errors import Code
from hedgerow.parties.vertical.nodes import StoredNodes
from hedgerow.protocols.vertical_id3.messages import Token
from hedgerow.protocols.vertical_id3.site import Leaf
from tests.parties.vertical.site_towns import SiteFiles, make_job
from tests.parties.wire.parties_calls import refuses


def test_nodes_are_read_as_they_were_written(tmp_path: Path) -> None:
    job = make_job()
    own = SiteFiles(tmp_path).columns("club", job)
    nodes = StoredNodes(Token(0, 1), {1: Leaf((3, 4), False)}, [])
    written = nodes.to_dict(job, "club", own)
    assert StoredNodes.from_dict(written, job, "club", own) == nodes
    named = written | {"version": 2, "kind": job.protocol}
    assert StoredNodes.from_dict(named, job, "club", own) == nodes
    for changes, code in (
        ({"version": 1}, Code.MODEL_VERSION),
        ({"kind": job.protocol}, Code.BAD_MODEL_FILE),
        ({"job": "0" * 64}, Code.BAD_MODEL_FILE),
        ({"columns": {}}, Code.BAD_SITES),
    ):
        changed = written | changes
        refuses(code, lambda changed=changed: StoredNodes.from_dict(changed, job, "club", own))
