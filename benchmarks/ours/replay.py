"""Memory, insert and sample rates, checkpoint and restore of a replay server.

Usage: python -m benchmarks.ours.replay --layout ours|tf_agents [--num_transitions N]
A transition is 66 float32: two observations [28], an action [8], a reward and a discount.
"""

import argparse
import pathlib
import tempfile
import time

import reverb

from benchmarks import program
from benchmarks.ours.layouts import LAYOUTS, Layout
from benchmarks.ours.programs import ReplayServer, replay_server
from benchmarks.process_stats import pss_mb

BATCH_SIZE = 256
NUM_WARMUP_TRANSITIONS = 1000
SAMPLE_SECS = 5.0


def sample_rate(layout: Layout, server: ReplayServer) -> float:
    """Transitions per second that one reader gets in minibatches."""
    batches = layout.batches(server.address, BATCH_SIZE)
    for _ in range(20):
        next(batches)
    num_batches, started = 0, time.monotonic()
    while time.monotonic() - started < SAMPLE_SECS:
        next(batches)
        num_batches += 1
    return num_batches * BATCH_SIZE / (time.monotonic() - started)


def main() -> None:
    """Measures and prints the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layout", choices=LAYOUTS, required=True)
    parser.add_argument("--num_transitions", type=int, default=100_000)
    arguments = parser.parse_args()
    layout, count = LAYOUTS[arguments.layout], arguments.num_transitions
    capacity = count + NUM_WARMUP_TRANSITIONS
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        with replay_server(folder / "replay", capacity, arguments.layout) as server:
            layout.insert(server.address, NUM_WARMUP_TRANSITIONS)
            empty_mb = pss_mb(server.pid)
            insert_secs = layout.insert(server.address, count)
            bytes_each = (pss_mb(server.pid) - empty_mb) * 1e6 / count
            samples_per_sec = sample_rate(layout, server)
            started = time.monotonic()
            checkpoint = reverb.Client(server.address).checkpoint()
            checkpoint_secs = time.monotonic() - started
        with replay_server(folder / "new", capacity, arguments.layout, checkpoint) as server:
            restore_secs = server.start_secs
    fields = {"num_transitions": count}
    program.print_result("bytes_per_transition", bytes_each, "B", **fields)
    program.print_result("inserts_per_sec", count / insert_secs, "1/s", **fields)
    program.print_result("samples_per_sec", samples_per_sec, "1/s", **fields)
    program.print_result("checkpoint_secs", checkpoint_secs, "s", **fields)
    program.print_result("restore_secs", restore_secs, "s", **fields)


if __name__ == "__main__":
    program.run(main)
