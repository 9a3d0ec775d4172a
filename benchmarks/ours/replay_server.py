"""A replay server for measurements: its rate limiter never holds anybody back.

Usage: python -m benchmarks.ours.replay_server --layout ours --port P --folder DIR --capacity N
Prints {"start_secs": ...} as soon as it serves; serves until it is killed.
"""

import argparse
import json
import pathlib
import time

from benchmarks.ours.layouts import LAYOUTS
from tfagents_system.core.program import prefer_throughput


def main() -> None:
    """Serves."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layout", choices=LAYOUTS, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="for checkpoints")
    parser.add_argument("--capacity", type=int, required=True, help="items")
    parser.add_argument("--restore_from", default="", help="folder of a checkpoint")
    arguments = parser.parse_args()
    prefer_throughput()  # as sac_replay_buffer.py does
    arguments.folder.mkdir(parents=True, exist_ok=True)
    restore_from = pathlib.Path(arguments.restore_from) if arguments.restore_from else None
    started = time.monotonic()
    server = LAYOUTS[arguments.layout].start_server(
        arguments.port, arguments.folder, arguments.capacity, restore_from
    )
    print(json.dumps({"start_secs": time.monotonic() - started}), flush=True)
    server.wait()


if __name__ == "__main__":
    main()
