"""The replay server program: holds the experience and the published variables.

Example: python tfagents_system/sac_replay_buffer.py --exp_dir logs/pendulum --port 8000
Waits for running/run_spec.json, which has limits and layout, so that it executes no user code;
reads the newest checkpoint generation in the experiment's folder; serves until SIGTERM, and then
until a learner that is also ending has saved. Writes a checkpoint when the learner asks for one,
and status/replay.json.
"""

import dataclasses
import itertools
import pathlib
import sys
import time
from collections.abc import Sequence
from typing import Annotated, Any

import reverb
import tensorflow as tf

from tfagents_system.core.errors import EXIT_STOPPED, ConfigError
from tfagents_system.core.process.background import raise_failures
from tfagents_system.core.programs.command_line import AtLeast
from tfagents_system.core.programs.program import StopFlag, neighbour_service, run_program
from tfagents_system.core.settings.minibatches import trains_offline
from tfagents_system.core.settings.training_settings import TrainingSettings
from tfagents_system.core.state.generations import REPLAY_FOLDER, newest_intact_generation
from tfagents_system.core.state.incarnation import Fence
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.state.reports import Phase
from tfagents_system.core.state.run_spec import RunSpec, await_run_spec
from tfagents_system.core.state.status_reporter import StatusReporter
from tfagents_system.data.item_description import described_item
from tfagents_system.launch.local import stop_times
from tfagents_system.launch.local.supervision import is_alive, is_supervised
from tfagents_system.services.replay import experience_stats, start_server
from tfagents_system.services.replay_files import empty_reverb_root
from tfagents_system.services.replay_limits import ReplayLimits

LEARNER_TIMEOUT_SECS = stop_times.LEARNER_SECS - 10.0  # then train_script.sh kills it
SIGNAL_SECS = 1.0  # time in which a signal to all processes of a job reaches each


def serve(
    exp_dir: str,
    port: int,
    deterministic: bool = False,
    incarnation: Annotated[int, AtLeast(0)] = 0,
    *,
    stop: StopFlag,
) -> int:
    """Serves an experiment until `stop` is set; returns EXIT_STOPPED.

    Args:
      exp_dir: Folder of the experiment.
      port: TCP port to serve on.
      deterministic: Worker and learner take turns.
      incarnation: The claim of this start of the run; see core/state/incarnation.py.
      stop: Ends the server when true.
    """
    paths = ExperimentPaths(pathlib.Path(exp_dir))
    if not await_run_spec(paths.run_spec, stop):
        return EXIT_STOPPED
    fence = Fence.of_core(paths, incarnation)
    fence.check()
    spec = RunSpec.read(paths.run_spec)
    layout, columns = described_item(spec.item)
    settings = _training_settings(spec)
    if deterministic and settings.update_ratio != "fixed":
        raise ConfigError(
            f"{paths.params}: update_ratio is {settings.update_ratio!r}; expected 'fixed' in a "
            "deterministic run (SAC_DETERMINISTIC), because the other depends on speeds."
        )
    if deterministic and settings.keep_interventions:
        raise ConfigError(
            f"{paths.params}: keep_interventions is True; expected False in a deterministic run "
            "(SAC_DETERMINISTIC), because what a person does is not repeated."
        )
    limits = ReplayLimits.from_settings(settings, spec.horizon, layout)
    reporter = StatusReporter(paths, "replay")
    server = _start(
        paths, limits, columns, port, deterministic, incarnation, settings.n_eval_episodes
    )
    client = server.localhost_client()

    num_to_fill = 0 if trains_offline(settings) else limits.min_size
    counts: dict[str, Any] = {
        "phase_secs": {},
        "transitions": 0,
        "capacity": layout.samples_in(limits.capacity, spec.horizon),
        "fill_target": layout.samples_in(num_to_fill, spec.horizon),
    }

    def fields() -> dict[str, Any]:
        try:
            num_items, _ = experience_stats(client, timeout_secs=5)
            counts["transitions"] = layout.samples_in(num_items, spec.horizon)
        except TimeoutError:
            pass  # too busy to answer itself, which is no reason to end and lose the experience
        return counts

    while not stop:
        fence.look()
        raise_failures()
        reporter.report(Phase.SERVING, fields)
        time.sleep(0.2)
    if learner := neighbour_service("learner"):
        _await_learner(learner)
    server.stop()
    return EXIT_STOPPED


def _await_learner(service: pathlib.Path) -> None:
    """Waits while the learner ends by itself, because its save needs this server.

    train_script.sh stops the learner first. But if train_script.sh is killed, or SLURM signals
    every process, nothing keeps that order, and no supervise is left.
    """
    for num_polls in itertools.count():
        secs = 0.1 * num_polls
        is_ending = secs < SIGNAL_SECS or not is_supervised(service)
        if not is_alive(service) or not is_ending or secs > LEARNER_TIMEOUT_SECS:
            return
        time.sleep(0.1)


def _training_settings(spec: RunSpec) -> TrainingSettings:
    names = [field.name for field in dataclasses.fields(TrainingSettings)]
    return TrainingSettings(**{name: spec.settings[name] for name in names})


def _start(
    paths: ExperimentPaths,
    limits: ReplayLimits,
    columns: Sequence[tf.TensorSpec],
    port: int,
    is_deterministic: bool,
    incarnation: int,
    num_eval_episodes: int,
) -> reverb.Server:
    generation = newest_intact_generation(paths.checkpoints)
    restore_from = generation.absolute() / REPLAY_FOLDER if generation else None
    root = empty_reverb_root(paths.checkpoints.absolute(), incarnation)
    server = start_server(
        limits, port, root, restore_from, is_deterministic, columns, num_eval_episodes
    )
    print(f"Serving on port {port}: {limits}, from {restore_from or 'an empty table'}.")
    return server


if __name__ == "__main__":
    run_program(serve, sys.argv)
