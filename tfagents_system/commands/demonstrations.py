"""Shows demonstrations, checks whether they fit an environment, or converts them.

Example: sac demonstrations show demonstrations
Example: sac demonstrations check demonstrations --env Pendulum-v1
Example: sac demonstrations convert demonstrations --output pendulum.demo

A folder is the sum of its files; docs/demonstrations.md describes them. `check` names what an agent
cannot learn from, then exits with 78, and what is only odd.
"""

import collections
import pathlib
from collections.abc import Sequence
from typing import Annotated

from tfagents_system.commands.projects.described_environment import described_params
from tfagents_system.core.errors import EXIT_CONFIG, ConfigError
from tfagents_system.core.process.processes import leaving_none_behind
from tfagents_system.core.programs.command_line import OneOf
from tfagents_system.core.settings.params import Params
from tfagents_system.demonstrations.conversion import convert
from tfagents_system.demonstrations.episode_file import Episode
from tfagents_system.demonstrations.files import read_demonstrations
from tfagents_system.evaluation.saved_experiment import prepare_tensorflow

MOST_SHOWN = 20  # lines
SEED = 1


def demonstrations(
    action: Annotated[str, OneOf(("show", "check", "convert"))],
    path: pathlib.Path,
    /,
    env: str | None = None,
    params: pathlib.Path | None = None,
    config: pathlib.Path | None = None,
    set_: tuple[str, ...] = (),
    output: pathlib.Path | None = None,
    branches: tuple[int, ...] = (),
    missing_reward: float | None = None,
) -> int:
    """Prints a summary or what does not fit; returns 0, or 78 if something does not fit.

    Args:
      action: What to do.
      path: File or folder of demonstrations, or folder of an experiment, whose replay buffer it
        is.
      env: For check: an environment, such as Pendulum-v1.
      params: For check: params file in place of --env.
      config: For check: JSON config of --params.
      set_: For check: hyperparameters, such as frame_stack=4.
      output: For convert: a file FILE.demo for ML-Agents, or a folder, for a file .npz of each
        episode.
      branches: For convert to .demo: the number of choices in each branch of discrete actions.
      missing_reward: The reward of each step in a data set of LeRobot that has none.

    Raises:
      ConfigError: If a file cannot be read, or there is no such environment.
    """
    if action != "check" and (env or params or config or set_):
        raise ConfigError("--env, --params, --config and --set are for check.")
    if action != "convert" and (output or branches):
        raise ConfigError("--output and --branches are for convert.")
    prepare_tensorflow()
    episodes = read_demonstrations(path, missing_reward)
    if action == "convert":
        if output is None:
            raise ConfigError("Where to? Give --output.")
        convert(episodes, output, branches)
        print(f"{output}: {_summary(episodes)}")
        return 0
    if action == "show":
        print("\n".join([f"{path}: {_summary(episodes)}", *_lines_of(episodes)]))
        return 0
    with leaving_none_behind(), described_params(env, params, config, set_) as train_params:
        return _check(episodes, train_params)


def _summary(episodes: Sequence[Episode]) -> str:
    ids = sorted({episode.environment for episode in episodes if episode.environment})
    text = f"{len(episodes)} episodes, {sum(e.length for e in episodes):,} env steps"
    return f"{text}, of {', '.join(ids)}" if ids else text


def _lines_of(episodes: Sequence[Episode]) -> list[str]:
    """Returns lines on the returns, lengths, ends and the spec."""
    ends = collections.Counter(episode.end for episode in episodes)
    lines = [
        _range("return", [float(episode.rewards.sum()) for episode in episodes]),
        _range("length", [episode.length for episode in episodes]),
        f"  end     {', '.join(f'{count} {end}' for end, count in ends.most_common())}",
    ]
    specs = collections.Counter(tuple(sorted(episode.spec.items())) for episode in episodes)
    for spec, count in specs.most_common():
        if len(specs) > 1:
            lines.append(f"  {count} of {len(episodes)} have")
        lines += [f"  {name}  {what}" for name, what in spec]
    left_out = sorted({name for episode in episodes for name in episode.left_out})
    return lines + ([f"  not read: {', '.join(left_out)}"] if left_out else [])


def _range(name: str, values: Sequence[float]) -> str:
    mean = sum(values) / len(values)
    return f"  {name}  mean {mean:.6g}, from {min(values):.6g} to {max(values):.6g}"


def _check(episodes: Sequence[Episode], params: Params) -> int:
    # Imported here, because TensorFlow takes seconds, and wrong input is reported sooner.
    from tfagents_system.demonstrations.fit import Specs, misfits, remarks
    from tfagents_system.environments.closing import closed_at_end
    from tfagents_system.environments.construction import make_collect_environment

    with closed_at_end(make_collect_environment(params, SEED)) as environment:
        specs = Specs(
            environment.observation_spec(),
            environment.action_spec(),
            params.env_config["horizon"],
            params.frame_stack,
        )
    wrong = [f"{e.origin}: {text}" for e in episodes for text in misfits(e, specs)]
    odd = [f"{e.origin}: {text}" for e in episodes for text in remarks(e, specs)]
    _print_some("WRONG  ", wrong)
    _print_some("note   ", odd)
    if wrong:
        print("The demonstrations do not fit. Record them with the environment that is trained.")
        return EXIT_CONFIG
    print(f"The demonstrations fit: {_summary(episodes)}.")
    return 0


def _print_some(prefix: str, lines: Sequence[str]) -> None:
    for line in lines[:MOST_SHOWN]:
        print(f"{prefix}{line}.")
    if len(lines) > MOST_SHOWN:
        print(f"{prefix}and {len(lines) - MOST_SHOWN} more.")
