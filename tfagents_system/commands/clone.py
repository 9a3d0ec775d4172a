"""Trains a policy to act as in demonstrations, without rewards, workers or a replay server.

Example: sac clone demonstrations --env Pendulum-v1 --name pendulum_clone
Example: sac clone demonstrations more/*.hdf5 --params arm_params.py --config arm_config.json
    --name arm_clone --steps 50000 --set normalize_observations=True

Writes logs/NAME, whose policy sac eval, sac record and sac export take, and from which sac train
--initialize_from logs/NAME starts. Some episodes are held out: where their loss rises while the
other one falls, the policy learns by heart; then record more episodes, or take fewer --steps.
"""

import functools
import math
import os
import pathlib
import shlex
import shutil
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np

from tfagents_system.agents.table import ALGORITHMS
from tfagents_system.commands.bindings import algorithm_in, bindings_of, with_bindings
from tfagents_system.commands.projects.described_environment import described_files
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.process.processes import leaving_none_behind
from tfagents_system.core.programs.command_line import AtLeast
from tfagents_system.core.programs.params_loader import gin_text, load_params
from tfagents_system.core.seeds import SeedPurpose, derive_seed
from tfagents_system.core.settings.env_config import load_env_config
from tfagents_system.core.settings.gin_bindings import parse_assignment
from tfagents_system.core.settings.params import Params
from tfagents_system.core.settings.variables import Settings
from tfagents_system.core.state.files import (
    make_folder_durably,
    rename_durably,
    temporary_name,
    write_json_durably,
    write_text_atomically,
)
from tfagents_system.core.state.incarnation import Fence
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.demonstrations.episode_file import Episode
from tfagents_system.demonstrations.files import read_demonstrations
from tfagents_system.evaluation.saved_experiment import prepare_tensorflow
from tfagents_system.launch.experiment import folder as experiment

if TYPE_CHECKING:
    from tfagents_system.assembly import Assembly

NUM_LINES = 10
STEPS_PER_CALL = 100  # between checks for Ctrl-C


class Split(NamedTuple):
    """The episodes of all demonstrations."""

    learned: list[Episode]
    held_out: list[Episode]


def clone(
    demonstrations: tuple[pathlib.Path, ...],
    /,
    name: str,
    env: str | None = None,
    params: pathlib.Path | None = None,
    config: pathlib.Path | None = None,
    set_: tuple[str, ...] = (),
    steps: Annotated[int, AtLeast(1)] = 10_000,
    held_out: Annotated[float, AtLeast(0)] = 0.1,
    seed: Annotated[int, AtLeast(0)] = 0,
) -> None:
    """Trains the policy, prints both losses, and writes the experiment.

    Args:
      demonstrations: Files or folders.
      name: Name of the experiment.
      env: Their environment, such as Pendulum-v1.
      params: Params file in place of --env.
      config: JSON config of --params.
      set_: Hyperparameters, such as actor_learning_rate=1e-3.
      steps: Train steps, with a minibatch of train_batch_size samples each.
      held_out: Share of the episodes that only show the loss; 0 for none.
      seed: Of weights, minibatches and the choice of episodes.

    Raises:
      ConfigError: If an argument, or a file that it names, is wrong; nothing is written then.
    """
    bindings = _bindings(set_)
    if not demonstrations:
        raise ConfigError("Which demonstrations? Name files or folders.")
    if held_out >= 1:
        raise ConfigError(f"--held_out is {held_out:g}; expected a number from 0 to below 1.")
    episodes = [episode for path in demonstrations for episode in read_demonstrations(path)]
    split = _split(episodes, held_out, seed)
    prepare_tensorflow()
    with leaving_none_behind(), described_files(env, params, config, algorithm_in(set_)) as files:
        settings = _settings(name, files, bindings, seed)
        paths = ExperimentPaths(settings.exp_dir)
        if not experiment.is_new(paths):
            raise ConfigError(f"{paths.root} already exists. Choose another --name, or move it "
                              "away.")  # fmt: skip
        train_params = load_params(settings.params, load_env_config(settings.config), bindings)
        _check_can_write(paths)
        made, curve = _imitate(train_params, split, steps, seed)
        paths_given, num_held_out = [*map(str, demonstrations)], len(split.held_out)
        record = {"demonstrations": paths_given, "held_out": num_held_out, "curve": curve}
        checkpoint = _write(paths, settings, made, gin_text(train_params), record)
    print(f"{checkpoint} is written. Evaluate it: sac eval {shlex.quote(str(paths.root))}")


def _check_can_write(paths: ExperimentPaths) -> None:
    """Raises ConfigError if the experiment's folder could not be made once training has ended."""
    folder = temporary_name(paths.root)
    try:
        make_folder_durably(folder)
        folder.rmdir()
    except OSError as error:
        raise ConfigError(f"{paths.root} cannot be written: {os.strerror(error.errno)}.") from error


def _bindings(assignments: Sequence[str]) -> list[str]:
    for assignment in assignments:
        setting = parse_assignment(assignment, "--set").name
        if setting in ("demonstrations", "demonstration_share", "behavioral_cloning"):
            raise ConfigError(
                f"--set has {setting}, which is for sac train. Here the demonstrations come "
                "without a flag, and --steps is the duration."
            )
    return bindings_of(assignments)


def _check_can_go_on(algorithm: str) -> None:
    """Raises ConfigError if training could not continue from a clone."""
    if ALGORITHMS[algorithm].normalizes_batches:
        able = [name for name, row in ALGORITHMS.items() if not row.normalizes_batches]
        raise ConfigError(
            f"TrainParams.algorithm is {algorithm!r}; expected one of {', '.join(able)}: "
            "batch normalization needs the minibatches of training."
        )


def _split(episodes: Sequence[Episode], share: float, seed: int) -> Split:
    """Holds out a share of the episodes, at least one unless it is 0."""
    num_held_out = max(1, round(share * len(episodes))) if share else 0
    if num_held_out >= len(episodes):
        raise ConfigError(
            f"--held_out {share:g} of {len(episodes)} leaves no episode to learn from. Add "
            "--held_out 0, or more episodes."
        )
    order = np.random.default_rng(seed).permutation(len(episodes))
    chosen = set(order[:num_held_out].tolist())
    learned = [episode for index, episode in enumerate(episodes) if index not in chosen]
    return Split(learned, [episodes[index] for index in sorted(chosen)])


def _settings(
    name: str, files: tuple[pathlib.Path, pathlib.Path], bindings: Sequence[str], seed: int
) -> Settings:
    params, config = files
    environ = {"SAC_EXP_NAME": name, "SAC_PARAMS": str(params), "SAC_CONFIG": str(config),
               "SAC_SEED": str(seed)}  # fmt: skip
    return Settings.from_environ(with_bindings(environ, bindings))


def _imitate(
    params: Params, split: Split, num_steps: int, seed: int
) -> tuple["Assembly", list[dict[str, Any]]]:
    """Trains an agent; returns it, and the losses by train step."""
    # Imported here, because TensorFlow takes seconds, and wrong input is reported sooner.
    from tfagents_system.agents.agent import ActorCriticAgent
    from tfagents_system.assembly import assemble_apart
    from tfagents_system.environments.global_generators import seed_global_generators
    from tfagents_system.learning.held_demonstrations import check_fit, held_rows
    from tfagents_system.learning.imitation import Imitation

    seed = derive_seed(seed, SeedPurpose.LEARNER)
    seed_global_generators(functools.partial(derive_seed, seed))
    made = assemble_apart(params, seed)
    if not isinstance(made.agent, ActorCriticAgent):
        raise ConfigError(
            f"TrainParams.agent_ctor returned a {type(made.agent).__name__}; only built-in agents "
            "learn from demonstrations alone."
        )
    _check_can_go_on(made.agent.algorithm)
    check_fit([*split.learned, *split.held_out], made, params.env_config["horizon"])
    learned, held_out = (
        held_rows(episodes, made, params) if episodes else None for episodes in split
    )
    assert learned is not None  # `_split` leaves some
    imitation = Imitation(
        made.agent, made.reader, learned, held_out, num_steps, params.train_batch_size,
        params.burn_in_len,
    )  # fmt: skip
    print(f"{len(split.learned)} episodes to learn from, {len(split.held_out)} held out.\n"
          "train step        loss    held out", flush=True)  # fmt: skip
    curve: list[dict[str, Any]] = []
    for line in range(1, NUM_LINES + 1):
        before, train_step = len(curve) and curve[-1]["train_step"], line * num_steps // NUM_LINES
        if train_step == before:
            continue  # fewer train steps than lines
        total = 0.0
        for begin in range(before, train_step, STEPS_PER_CALL):
            count = min(STEPS_PER_CALL, train_step - begin)
            total += count * imitation.train(count)
        losses = total / (train_step - before), imitation.held_out_loss()
        shown = "".join("" if loss is None else f"{loss:12.5g}" for loss in losses)
        print(f"{train_step:10,}{shown}", flush=True)
        if not math.isfinite(losses[0]):
            raise ConfigError(
                f"The loss is {losses[0]} at train step {train_step}: scale the observations to "
                "about 1, or set normalize_observations, or lower actor_learning_rate."
            )
        row = dict(zip(("loss", "held_out_loss"), losses, strict=True))
        curve.append({"train_step": train_step, **row})
    return made, curve


def _write(
    paths: ExperimentPaths,
    settings: Settings,
    made: "Assembly",
    gin: str,
    record: Mapping[str, Any],
) -> str:
    """Makes the experiment's folder atomically; returns the name of its policy."""
    from tfagents_system.learning.policy_export import PolicyExporter

    # `create` adds to this name, and names of files end at 255 bytes.
    unfinished = ExperimentPaths(temporary_name(paths.root.with_name("clone")))
    provenance = experiment.Provenance.of_new_run(settings)
    lock = None
    try:
        lock = experiment.create(unfinished, settings, provenance, {})
        exporter = PolicyExporter(
            unfinished, made.agent, made.train_step, Fence.of_core(unfinished, 0)
        )
        if not exporter.export():
            raise ConfigError(f"{paths.root} cannot be written: {exporter.problem}")
        write_text_atomically(unfinished.gin, gin)
        write_json_durably(unfinished.clone, record)
        rename_durably(unfinished.root, paths.root)
    finally:
        shutil.rmtree(unfinished.root, ignore_errors=True)
        if lock is not None:
            os.close(lock)
    return paths.policy_checkpoints()[-1].name
