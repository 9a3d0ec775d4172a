"""Films the first, the middle and the best policy of an experiment for its report."""

import contextlib
import io
import pathlib
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tfagents_system.core.settings.env_config import load_env_config
from tfagents_system.core.state.best_policies import best_policy
from tfagents_system.core.state.files import is_inside
from tfagents_system.core.state.paths import POLICY_CHECKPOINT_PREFIX, ExperimentPaths
from tfagents_system.environments.headless import draw_unseen
from tfagents_system.evaluation.saved_experiment import load_saved_params, prepare_tensorflow
from tfagents_system.records.run_history import EvaluationPoint
from tfagents_system.terminal.lines import Terminal

SEED = 0  # the same as in `sac eval`, so that both share their films


def find_films(
    paths: ExperimentPaths, points: Sequence[EvaluationPoint]
) -> dict[str, pathlib.Path]:
    """Returns the films by caption; if one of the three is missing, films of other policies."""
    films = _films(paths)
    chosen = _choose(paths, points, films.keys() | _policies(paths).keys())
    of = "policy"
    if not chosen.keys() <= films.keys():
        chosen = _choose(paths, points, films.keys())
        of = "of the filmed policies"
    return {
        f"{' and '.join(names)} {of}, train step {step:,}": films[step]
        for step, names in chosen.items()
    }


def make_films(
    paths: ExperimentPaths, points: Sequence[EvaluationPoint], terminal: Terminal
) -> None:
    """Films an episode of each of the three policies that has no film, or prints why it cannot."""
    missing = _missing(paths, points)
    if not missing:
        return
    terminal.show(lambda: "starting TensorFlow, to film")
    try:
        _film_all(paths, missing, terminal)
    except Exception as error:  # any exception of the params file or the environment
        raised = getattr(error, "reason", f"{type(error).__name__}: {error}")
        reason = raised.splitlines()[0]
        terminal.print(f"The report lacks films of {len(missing)} policies: {reason}")


def num_missing_films(paths: ExperimentPaths, points: Sequence[EvaluationPoint]) -> int:
    """Returns the number of films that `make_films` would make."""
    return len(_missing(paths, points))


def _missing(paths: ExperimentPaths, points: Sequence[EvaluationPoint]) -> list[pathlib.Path]:
    films, policies = _films(paths), _policies(paths)
    chosen = _choose(paths, points, films.keys() | policies.keys())
    return [policies[step] for step in sorted(chosen.keys() - films.keys())]


def _films(paths: ExperimentPaths) -> dict[int, pathlib.Path]:
    """Returns one film of each filmed policy, by train step."""
    films = {}
    for path in paths.training_videos.glob(f"{POLICY_CHECKPOINT_PREFIX}*.mp4"):
        films[path.stem] = path
    for path in paths.videos.glob(f"{POLICY_CHECKPOINT_PREFIX}*/episode_0.mp4"):
        films[path.parent.name] = path
    return _by_train_step({k: path for k, path in films.items() if is_inside(path, paths.videos)})


def _policies(paths: ExperimentPaths) -> dict[int, pathlib.Path]:
    """Returns the folders of all kept policies, by train step."""
    folders = {path.name: path for path in paths.policy_checkpoints()}
    if best := best_policy(paths):
        folders[best.folder.name] = best.folder
    return _by_train_step(folders)


def _by_train_step(named: Mapping[str, pathlib.Path]) -> dict[int, pathlib.Path]:
    steps = {name.removeprefix(POLICY_CHECKPOINT_PREFIX): path for name, path in named.items()}
    return {int(step): path for step, path in steps.items() if re.fullmatch("[0-9]+", step)}


def _choose(
    paths: ExperimentPaths, points: Sequence[EvaluationPoint], train_steps: Collection[int]
) -> dict[int, list[str]]:
    """Returns the first, the middle and the best of the policies.

    The best is the one in policies/best, if it is among them; otherwise the one with the best
    evaluation, taking for each policy the last one up to its train step.
    """
    if not train_steps:
        return {}
    steps = sorted(train_steps)
    best = best_policy(paths)

    def evaluation(step: int) -> float:
        before = [point.mean_return for point in points if point.train_step <= step]
        return before[-1] if before else -float("inf")

    chosen = {"first": steps[0], "middle": steps[len(steps) // 2]}
    if best is not None and best.train_step in train_steps:
        chosen["best"] = best.train_step
    else:
        chosen["best"] = max(steps, key=lambda step: (evaluation(step), step))
    names: dict[int, list[str]] = {}
    for name, step in chosen.items():
        names.setdefault(step, []).append(name)
    return names


def _film_all(paths: ExperimentPaths, policies: Sequence[pathlib.Path], terminal: Terminal) -> None:
    prepare_tensorflow()
    draw_unseen()
    with contextlib.redirect_stderr(io.StringIO()):  # gym advertises its successor
        from tfagents_system.environments.closing import closed_at_end
        from tfagents_system.evaluation import evaluator
    env_config = load_env_config(paths.config)
    params = load_saved_params(paths, None, env_config)
    for index, policy in enumerate(policies):
        progress = f"filming {policy.name} ({index + 1} of {len(policies)})"
        with closed_at_end(evaluator.make_eval_environment(params, SEED)) as environment:
            greedy = evaluator.load_greedy_policy(params, environment, policy)
            folder, horizon = paths.videos / policy.name, env_config["horizon"]
            if not _film(environment, greedy, horizon, folder, progress, terminal):
                return  # the next one would fail, too


def _film(
    environment: Any, policy: Any, horizon: int, folder: pathlib.Path, progress: str,
    terminal: Terminal,
) -> bool:  # fmt: skip
    """Films one episode, as `sac eval` does; returns whether there is a film."""
    from tfagents_system.collection.rollouts import run_episode
    from tfagents_system.films.camera import Camera

    camera = Camera(horizon, folder, terminal.print)
    num_steps = 0

    def observe(time_step: Any, action: Any, next_time_step: Any, state: Any) -> bool:
        nonlocal num_steps
        num_steps += 1
        camera.observe(next_time_step)
        terminal.show(lambda: f"{progress}: step {num_steps} of {horizon}")
        return True

    camera.begin("episode_0", environment)
    try:
        run_episode(environment, policy, horizon, observe)
        return camera.end() is not None
    finally:
        camera.discard()
