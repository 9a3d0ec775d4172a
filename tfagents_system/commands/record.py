"""Records episodes of a policy as demonstrations.

Example: sac record logs/pendulum --num_episodes 20
Example: sac record --env Pendulum-v1 --policy exports/policy_checkpoint_0000500000/numpy

Writes a file for each episode to a folder, in the format of docs/demonstrations.md; files that are
there stay. The policy is the greedy one of an experiment, or --policy: a folder that `sac export`
has written, or a Python file with a class Policy that has a method action(observation).
"""

import contextlib
import pathlib
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from tfagents_system.commands.described_environment import described_params
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.process.processes import leaving_none_behind
from tfagents_system.core.programs.command_line import AtLeast
from tfagents_system.core.settings.env_config import load_env_config
from tfagents_system.core.settings.params import Params
from tfagents_system.core.state.paths import existing_experiment
from tfagents_system.demonstrations.recorder import Recorder
from tfagents_system.environments.headless import draw_unseen
from tfagents_system.evaluation.saved_experiment import (
    find_checkpoint,
    load_saved_params,
    prepare_tensorflow,
)


def record(
    exp_dir: pathlib.Path | None = None,
    /,
    env: str | None = None,
    params: pathlib.Path | None = None,
    config: pathlib.Path | None = None,
    set_: tuple[str, ...] = (),
    policy: pathlib.Path | None = None,
    checkpoint: str | None = None,
    num_episodes: Annotated[int, AtLeast(1)] = 10,
    output: pathlib.Path = pathlib.Path("demonstrations"),
    seed: Annotated[int, AtLeast(0)] = 0,
) -> None:
    """Writes the episodes, and prints a line for each.

    Args:
      exp_dir: Folder of an experiment, whose environment and policy are used.
      env: An environment in place of an experiment, with --policy.
      params: Params file in place of --env.
      config: JSON config of --params.
      set_: Hyperparameters of --env or --params, such as frame_stack=4.
      policy: Folder of an exported policy, or a Python file.
      checkpoint: Of the experiment, such as policy_checkpoint_0000500000 or best. Default: the
        newest.
      num_episodes: Number of episodes.
      output: Folder to write to.
      seed: The same seed gives the same episodes.

    Raises:
      ConfigError: If an argument, or a file that it names, is wrong.
    """
    prepare_tensorflow()
    if exp_dir is None and policy is None:
        raise ConfigError("Whose episodes? Give the folder of an experiment, or --policy.")
    if policy is not None and checkpoint is not None:
        raise ConfigError("--policy and --checkpoint both name a policy: leave one of them out.")
    name = env if exp_dir is None else exp_dir.resolve().name
    with leaving_none_behind(), _params_of(exp_dir, env, params, config, set_) as train_params:
        draw_unseen()
        # Imported here, because TensorFlow takes seconds, and wrong input is reported before.
        from tfagents_system.environments.closing import closed_at_end
        from tfagents_system.evaluation.evaluator import load_greedy_policy, make_eval_environment
        from tfagents_system.export.policy_file import FilePolicy

        with closed_at_end(make_eval_environment(train_params, seed)) as environment:
            if policy is not None:
                acting: Any = FilePolicy(policy, environment.action_spec())
            else:
                assert exp_dir is not None
                found = find_checkpoint(existing_experiment(exp_dir), checkpoint)
                acting = load_greedy_policy(train_params, environment, found)
            recorder = Recorder(output, name)
            _record(environment, acting, train_params.env_config["horizon"], num_episodes, recorder)


@contextlib.contextmanager
def _params_of(
    exp_dir: pathlib.Path | None,
    env: str | None,
    params: pathlib.Path | None,
    config: pathlib.Path | None,
    set_: Sequence[str],
) -> Iterator[Params]:
    if exp_dir is None:
        with described_params(env, params, config, set_) as described:
            yield described
        return
    if env or params or config or set_:
        raise ConfigError("An experiment has its own environment: leave out --env, --params, "
                          "--config and --set.")  # fmt: skip
    paths = existing_experiment(exp_dir)
    yield load_saved_params(paths, None, load_env_config(paths.config))


def _record(
    environment: Any, policy: Any, horizon: int, num_episodes: int, recorder: Recorder
) -> None:
    from tfagents_system.collection.rollouts import run_episode

    recording = _Recording(recorder, horizon)
    for _ in range(num_episodes):
        episode = run_episode(environment, policy, horizon, recording.observe)
        shown = f"return {episode.episode_return:.6g}, {episode.length} env steps"
        print(f"{recording.file}  {shown}", flush=True)


class _Recording:
    """Passes the env steps of `run_episode` to a recorder."""

    def __init__(self, recorder: Recorder, horizon: int):
        self._recorder = recorder
        self._horizon = horizon
        self._length = 0
        self.file: pathlib.Path | None = None  # of the last complete episode

    def observe(self, time_step: Any, action: Any, next_time_step: Any, state: Any) -> bool:
        """Records an env step."""
        if self._length == 0:
            self._recorder.reset(time_step.observation)
        self._length += 1
        is_over = bool(next_time_step.is_last()) or self._length == self._horizon
        is_terminal = is_over and float(next_time_step.discount) == 0
        self.file = self._recorder.step(
            action, next_time_step.observation, next_time_step.reward, is_terminal, is_over
        )
        if is_over:
            self._length = 0
        return True
