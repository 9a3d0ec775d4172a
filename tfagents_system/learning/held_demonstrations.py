"""The demonstrations of a run: copied into its folder once, and held by the learner."""

import itertools
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

from tfagents_system.assembly import Assembly
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.programs.params_loader import Run
from tfagents_system.core.settings.minibatches import paths_of_demonstrations, trains_offline
from tfagents_system.core.settings.params import Params
from tfagents_system.core.state.incarnation import Fence
from tfagents_system.core.state.provenance import original_of
from tfagents_system.demonstrations.episode_file import MAX_BYTES, Episode, digest, write_episodes
from tfagents_system.demonstrations.files import find_demonstrations, read_demonstrations
from tfagents_system.demonstrations.fit import Specs, misfits
from tfagents_system.demonstrations.rows import Rows, rows_of

MOST_SHOWN = 5  # misfits, in a message
OFFLINE = (
    "no env steps are collected, and the values of actions that the data lack are guesses. "
    "Evaluate the policy before you use it; a new run goes on with env steps of its own: sac train "
    "--initialize_from"
)


class HeldDemonstrations(NamedTuple):
    """The demonstrations from which a learner draws samples."""

    digest: str  # of their content
    rows: Rows
    described: str = ""  # for a person


def hold_demonstrations(run: Run, made: Assembly, fence: Fence) -> HeldDemonstrations | None:
    """Returns the run's demonstrations; None if it has none.

    The first start that has some copies them into the experiment's folder. From then on the run
    reads the copies, so the originals may move. Later starts compare the originals if they exist; a
    learner that restarts meanwhile does not, because they may be growing.

    Raises:
      ConfigError: If they cannot be read, do not fit the environment, need too much memory, or
        differ from the run's.
    """
    kept = run.paths.demonstrations
    has_begun = run.paths.run_spec.exists() and kept.exists()
    given = None if has_begun else _given(run)
    if not kept.exists():
        if given is None:
            return None
        check_fit(given, made, run.horizon)
        write_episodes(kept, given, prepare=fence.check)
    episodes = read_demonstrations(kept)
    found = digest(episodes)
    if given is not None and digest(given) != found:
        raise ConfigError(
            f"{run.params.demonstrations!r} (demonstrations) now has other episodes than those "
            f"with which this run began, in {kept}. To go on with those, set demonstrations = "
            f"{str(kept)!r}; to learn from others, start a new experiment."
        )
    if not run.params.demonstrations:
        raise ConfigError(
            f"demonstrations is None, but this run began with those in {kept}. To go on, set "
            f"demonstrations = {str(kept)!r}; to learn without them, start a new experiment."
        )
    check_fit(episodes, made, run.horizon)
    check_has_rewards(episodes, run.params, made)
    rows = held_rows(episodes, made, run.params)
    num_steps = f"{sum(episode.length for episode in episodes):,} env steps"
    print(
        f"Demonstrations: {len(episodes)} episodes, {num_steps}, "
        f"{run.params.demonstration_share:.0%} of each minibatch."
    )
    names, name = ", ".join(paths_of_demonstrations(run.params.demonstrations)), run.paths.root.name
    return HeldDemonstrations(found, rows, f"{num_steps} of {names}: {OFFLINE} logs/{name}")


def check_has_rewards(episodes: Sequence[Episode], params: Params, made: Assembly) -> None:
    """Raises ConfigError if training is offline, and has nothing to maximize."""
    if not trains_offline(params) or made.reward_signals is not None:
        return
    if not any(episode.rewards.any() for episode in episodes):
        names = ", ".join(paths_of_demonstrations(params.demonstrations))
        raise ConfigError(
            f"All rewards of {names} are 0, so offline training has nothing to maximize. Take data "
            "with rewards; to act as in this data, call sac clone."
        )


def demonstration_paths(params: Params, file: pathlib.Path) -> list[pathlib.Path]:
    """Returns the paths that the setting `demonstrations` of a params file names."""
    names, folder = paths_of_demonstrations(params.demonstrations), original_of(file).parent
    return [find_demonstrations(name, folder) for name in names]


def _given(run: Run) -> list[Episode] | None:
    """Returns the episodes that the setting names; None if it names none, or they are gone."""
    paths = demonstration_paths(run.params, run.paths.params)
    is_kept = run.paths.demonstrations.exists()
    if not paths or (is_kept and not all(path.exists() for path in paths)):
        return None
    return list(itertools.chain(*map(read_demonstrations, paths)))


def check_fit(episodes: Sequence[Episode], made: Assembly, horizon: int) -> None:
    """Raises ConfigError if an agent cannot learn from `episodes`."""
    agent = made.agent
    observation, frame_stack = agent.time_step_spec.observation, made.layout.frame_stack
    specs = Specs(observation, agent.action_spec, horizon, frame_stack)
    found = (f"{e.origin}: {text}" for e in episodes for text in misfits(e, specs))
    if wrong := list(itertools.islice(found, MOST_SHOWN)):
        raise ConfigError(
            f"The demonstrations do not fit the environment. {'. '.join(wrong)}. See: sac "
            "demonstrations check"
        )


def held_rows(episodes: Sequence[Episode], made: Assembly, params: Params) -> Rows:
    """Returns the rows of `episodes`, which must fit.

    Raises:
      ConfigError: If they need too much memory, or there is nothing to learn.
    """
    needed = made.row_bytes * sum(episode.length + 1 for episode in episodes)
    if needed > MAX_BYTES:
        raise ConfigError(
            f"The demonstrations need {needed:,} bytes of the learner's memory; expected "
            f"at most {MAX_BYTES:,}. Leave some out."
        )
    try:
        rows = rows_of(episodes, made.codec, made.layout, params.discount, params.time_aware)
    except ValueError as error:
        raise ConfigError(f"The demonstrations cannot be learned from: {error}.") from error
    if not rows.starts.size:
        raise ConfigError(
            f"No demonstration is as long as a sequence of {made.layout.length} env steps, and "
            "this agent does not mask padding."
        )
    return rows
