"""The replay server program: holds the experience and the published variables.

Example: python tfagents_system/sac_replay_buffer.py --exp_dir logs/pendulum --port 8000
Reads config.json, params.py and the newest checkpoint generation in the experiment's folder; serves
until SIGTERM, and then until a learner that is ending, too, has saved. Writes a checkpoint when the
learner asks for one, and status/replay.json.
"""

import itertools
import pathlib
import sys
import time
from typing import Any

from tfagents_system.core.errors import EXIT_STOPPED
from tfagents_system.core.generations import newest_intact_generation
from tfagents_system.core.params_loader import load_run
from tfagents_system.core.paths import ExperimentPaths
from tfagents_system.core.program import StopFlag, run_program
from tfagents_system.core.reports import Phase, StatusReporter
from tfagents_system.data.item_layout import ItemLayout
from tfagents_system.launch.supervision import is_alive, is_supervised
from tfagents_system.services.replay import ReplayLimits, experience_stats, start_server
from tfagents_system.services.replay_files import empty_reverb_root

LEARNER_TIMEOUT_SECS = 110.0  # train_script.sh waits 120 s for the learner's end
SIGNAL_SECS = 1.0  # within which a signal to every process of a job has reached them all


def serve(exp_dir: str, port: int, deterministic: bool = False, *, stop: StopFlag) -> int:
    """Serves an experiment until `stop` is set; returns EXIT_STOPPED.

    Args:
      exp_dir: Folder of the experiment.
      port: TCP port to serve on.
      deterministic: Worker and learner take turns.
      stop: Ends the server.
    """
    run = load_run(exp_dir)
    limits = ReplayLimits.from_settings(run.params, run.horizon)
    reporter = StatusReporter(run.paths, "replay")
    server = _start(run.paths, limits, port, deterministic)
    client = server.localhost_client()

    layout = ItemLayout.from_settings(run.params)
    counts: dict[str, Any] = {
        "phase_secs": {},
        "transitions": 0,
        "capacity": layout.samples_in(limits.capacity, run.horizon),
        "fill_target": layout.samples_in(limits.min_size, run.horizon),
    }

    def fields() -> dict[str, Any]:
        try:
            num_items, _ = experience_stats(client, timeout_secs=5)
            counts["transitions"] = layout.samples_in(num_items, run.horizon)
        except TimeoutError:
            pass  # too busy to answer itself: no reason to end and lose the experience
        return counts

    while not stop:
        reporter.report(Phase.SERVING, fields)
        time.sleep(0.2)
    _await_learner(run.paths.services / "learner")
    server.stop()
    return EXIT_STOPPED


def _await_learner(service: pathlib.Path) -> None:
    """Waits while the learner ends by itself: it saves, which takes this server.

    train_script.sh stops the learner first. But if it is killed, or SLURM tells every process to
    end, nobody keeps that order, and no supervise is left either.
    """
    for num_polls in itertools.count():
        secs = 0.1 * num_polls
        is_ending = secs < SIGNAL_SECS or not is_supervised(service)
        if not is_alive(service) or not is_ending or secs > LEARNER_TIMEOUT_SECS:
            return
        time.sleep(0.1)


def _start(paths: ExperimentPaths, limits: ReplayLimits, port: int, is_deterministic: bool):
    generation = newest_intact_generation(paths.checkpoints)
    restore_from = generation.absolute() / "replay" if generation else None
    root = empty_reverb_root(paths.checkpoints.absolute())
    server = start_server(limits, port, root, restore_from, is_deterministic)
    print(f"Serving on port {port}: {limits}, from {restore_from or 'an empty table'}.")
    return server


if __name__ == "__main__":
    run_program(serve, sys.argv)
