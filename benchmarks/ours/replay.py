"""Measures a replay server: memory, insert and sample rates, checkpoint and restore.

Example: python -m benchmarks.ours.replay --layout ours
A transition is 66 float32: two observations [28], an action [8], a reward and a discount; for
images it is one frame of 84 x 84 x 3 bytes, because each frame is stored once.
"""

import pathlib
import tempfile
import time
from typing import Annotated

import reverb

from benchmarks import program
from benchmarks.ours.layouts import LAYOUTS, Layout
from benchmarks.ours.programs import ReplayServer, replay_server
from benchmarks.process_stats import anonymous_mb
from tfagents_system.core.programs.command_line import AtLeast, OneOf

BATCH_SIZE = 256
NUM_WARMUP_TRANSITIONS = 1000
SAMPLE_SECS = 5.0


def sample_rate(layout: Layout, server: ReplayServer) -> float:
    """Returns the transitions per second that one reader gets in minibatches."""
    batches = layout.batches(server.address, BATCH_SIZE)
    for _ in range(20):
        next(batches)
    num_batches, started = 0, time.monotonic()
    while time.monotonic() - started < SAMPLE_SECS:
        next(batches)
        num_batches += 1
    return num_batches * BATCH_SIZE / (time.monotonic() - started)


def main(
    layout: Annotated[str, OneOf(LAYOUTS)],
    num_transitions: Annotated[int, AtLeast(1)] = 100_000,
) -> None:
    """Measures and prints the results.

    Args:
      layout: Layout of the items.
      num_transitions: Transitions in the replay buffer.
    """
    items = LAYOUTS[layout]
    capacity = num_transitions + NUM_WARMUP_TRANSITIONS
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        with replay_server(folder / "replay", capacity, layout) as server:
            items.insert(server.address, NUM_WARMUP_TRANSITIONS)
            empty_mb = anonymous_mb(server.pid)
            insert_secs = items.insert(server.address, num_transitions)
            bytes_each = (anonymous_mb(server.pid) - empty_mb) * 1e6 / num_transitions
            samples_per_sec = sample_rate(items, server)
            started = time.monotonic()
            checkpoint = reverb.Client(server.address).checkpoint()
            checkpoint_secs = time.monotonic() - started
        with replay_server(folder / "new", capacity, layout, checkpoint) as server:
            restore_secs = server.start_secs
    fields = {"num_transitions": num_transitions}
    program.print_result("bytes_per_transition", bytes_each, "B", **fields)
    program.print_result("times_raw_data", bytes_each / items.raw_bytes, "x", **fields)
    program.print_result("inserts_per_sec", num_transitions / insert_secs, "1/s", **fields)
    program.print_result("samples_per_sec", samples_per_sec, "1/s", **fields)
    program.print_result("checkpoint_secs", checkpoint_secs, "s", **fields)
    program.print_result("restore_secs", restore_secs, "s", **fields)


if __name__ == "__main__":
    program.run(main)
