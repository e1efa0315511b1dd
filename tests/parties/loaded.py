"""What the process that forks those of tests has loaded."""

import hedgerow.cli.main  # noqa: F401
import tests.parties.runs.run_daemon
import tests.parties.store.writers  # noqa: F401
from hedgerow.compiled import load_compiler

load_compiler()
