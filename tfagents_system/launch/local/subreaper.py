"""Runs a command as the subreaper of its descendants: it adopts their orphans.

Usage: python -m tfagents_system.launch.local.subreaper COMMAND [ARGUMENT...]

A process that user code starts may leave its program's session and group, drop its variables and
outlive its parents. A supervise that is its subreaper still finds it as a process of the service.
"""

import os
import sys

from tfagents_system.core.errors import EXIT_CONFIG
from tfagents_system.core.process.process_start import end_imports
from tfagents_system.core.process.processes import adopt_orphans

MODULE = "tfagents_system.launch.local.subreaper"


def main(command: list[str]) -> None:
    """Becomes `command`."""
    if not command or command[0].startswith("-"):
        print(__doc__.splitlines()[2], file=sys.stderr)
        sys.exit(EXIT_CONFIG)
    adopt_orphans()
    os.execvp(command[0], command)


if __name__ == "__main__":
    end_imports()
    main(sys.argv[1:])
