"""Records episodes of a policy, or of a person, as demonstrations.

Example: sac record logs/pendulum --num_episodes 20
Example: sac record --env Pendulum-v1 --keyboard
Example: sac record --env Pendulum-v1 --policy exports/policy_checkpoint_0000500000/numpy

Writes a file for each episode to a folder, in the format of docs/demonstrations.md; files that are
there stay. The policy is the greedy one of an experiment, or --policy: a folder that `sac export`
has written, or a Python file with a class Policy that has a method action(observation).
With --keyboard or --gamepad a person acts, in a window that shows the environment.
"""

import contextlib
import pathlib
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from tfagents_system.commands.projects.described_environment import described_params
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
from tfagents_system.films.inputs import input_names
from tfagents_system.films.window import GAMEPAD, KEYBOARD, Window


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
    keyboard: bool = False,
    gamepad: bool = False,
    keys: tuple[str, ...] = (),
) -> None:
    """Writes the episodes, and prints a line for each.

    Args:
      exp_dir: Folder of an experiment, whose environment and policy are used.
      env: An environment in place of an experiment, with --policy, --keyboard or --gamepad.
      params: Params file in place of --env.
      config: JSON config of --params.
      set_: Hyperparameters of --env or --params, such as frame_stack=4.
      policy: Folder of an exported policy, or a Python file.
      checkpoint: Of the experiment, such as policy_checkpoint_0000500000 or best. Default: the
        newest.
      num_episodes: Number of episodes.
      output: Folder to write to.
      seed: The same seed gives the same episodes, but for a person's.
      keyboard: A person acts, by keys. What each does is printed at the start.
      gamepad: A person acts, by a gamepad or keys.
      keys: What keys do, in place of the defaults: left=0:-1 makes component 0 of the action -1,
        space=2 the only component 2, none=1 while nothing is held; return=end, backspace=drop.
        Parts of a gamepad are button0, axis0neg, axis0pos, and left, right, up, down.

    Raises:
      ConfigError: If an argument, or a file that it names, is wrong.
    """
    prepare_tensorflow()
    device = _device_of(keyboard, gamepad, policy, checkpoint, keys)
    if exp_dir is None and policy is None and device is None:
        raise ConfigError(
            "Whose episodes? Give the folder of an experiment, --policy, --keyboard or --gamepad."
        )
    if policy is not None and checkpoint is not None:
        raise ConfigError("--policy and --checkpoint both name a policy: leave one of them out.")
    name = env if exp_dir is None else exp_dir.resolve().name
    shown: contextlib.AbstractContextManager[Window | None] = contextlib.nullcontext()
    with (
        leaving_none_behind(),
        _params_of(exp_dir, env, params, config, set_) as train_params,
        Window(name or "sac record", inputs=device) if device else shown as window,
    ):
        draw_unseen()  # another program shows the window
        # Imported here, because TensorFlow takes seconds, and wrong input is reported sooner.
        from tfagents_system.commands.person import record_person
        from tfagents_system.environments.closing import closed_at_end
        from tfagents_system.evaluation.evaluator import load_greedy_policy, make_eval_environment
        from tfagents_system.export.policy_file import FilePolicy
        from tfagents_system.policies.person import Controls

        with closed_at_end(make_eval_environment(train_params, seed)) as environment:
            horizon = train_params.env_config["horizon"]
            if window is not None:
                spec = environment.action_spec()
                controls = Controls(spec, keys, input_names(gamepad), gamepad)
                recorder = Recorder(output, name)
                record_person(environment, window, controls, horizon, num_episodes, recorder)
                return
            if policy is not None:
                acting: Any = FilePolicy(policy, environment.action_spec())
            else:
                assert exp_dir is not None
                found = find_checkpoint(existing_experiment(exp_dir), checkpoint)
                acting = load_greedy_policy(train_params, environment, found)
            recorder = Recorder(output, name)
            _record(environment, acting, horizon, num_episodes, recorder)


def _device_of(
    keyboard: bool,
    gamepad: bool,
    policy: pathlib.Path | None,
    checkpoint: str | None,
    keys: Sequence[str],
) -> str | None:
    """Returns the device by which a person acts; None if a policy acts."""
    if not (keyboard or gamepad):
        if keys:
            raise ConfigError("--keys is for --keyboard and --gamepad.")
        return None
    flag = "--gamepad" if gamepad else "--keyboard"
    if keyboard and gamepad:
        raise ConfigError("--gamepad has the keyboard, too: leave out --keyboard.")
    if policy is not None or checkpoint is not None:
        raise ConfigError(f"With {flag} a person acts: leave out --policy and --checkpoint.")
    return GAMEPAD if gamepad else KEYBOARD


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
    from tfagents_system.commands.recording import Recording

    recording = Recording(recorder, horizon, environment)
    for _ in range(num_episodes):
        episode = run_episode(environment, policy, horizon, recording.observe)
        shown = f"return {episode.episode_return:.6g}, {episode.length} env steps"
        print(f"{recording.file}  {shown}", flush=True)
