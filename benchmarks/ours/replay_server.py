"""Runs a replay server whose rate limiter never makes anyone wait.

Example: python -m benchmarks.ours.replay_server --layout ours --port 8000 \
--folder logs/server --capacity 100000
Prints {"start_secs": ...} once it serves; serves until it is killed.
"""

import json
import pathlib
import sys
import time
from typing import Annotated

from benchmarks.ours.layouts import LAYOUTS
from tfagents_system.core.programs.command_line import AtLeast, OneOf, run_tool
from tfagents_system.core.programs.program import prefer_throughput


def main(
    layout: Annotated[str, OneOf(LAYOUTS)],
    port: int,
    folder: pathlib.Path,
    capacity: Annotated[int, AtLeast(1)],
    restore_from: pathlib.Path | None = None,
) -> None:
    """Serves.

    Args:
      layout: Layout of the items.
      port: TCP port to serve on.
      folder: For checkpoints.
      capacity: Items.
      restore_from: Folder of a checkpoint.
    """
    prefer_throughput()  # as sac_replay_buffer.py does
    folder.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    server = LAYOUTS[layout].start_server(port, folder, capacity, restore_from)
    print(json.dumps({"start_secs": time.monotonic() - started}), flush=True)
    server.wait()


if __name__ == "__main__":
    run_tool(main, sys.argv)
