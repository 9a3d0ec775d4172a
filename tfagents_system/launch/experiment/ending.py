"""The record of a finished experiment."""

from collections.abc import Mapping, Sequence
from typing import Any

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.hyperparameters import hyperparameters
from tfagents_system.core.settings.training_settings import TrainingSettings
from tfagents_system.core.state.files import read_json
from tfagents_system.core.state.paths import ExperimentPaths

_ANEW = "To start again and keep this one under another name, add --force_new."


def read_finished(paths: ExperimentPaths) -> dict[str, Any]:
    """Returns the record of a finished experiment; its `num_iter` is a number of iterations.

    Raises:
      ConfigError: If the file is damaged.
    """
    try:
        facts = read_json(paths.finished)
        if not hyperparameters(TrainingSettings)["num_iter"].is_allowed(facts["num_iter"]):
            raise ValueError(f"num_iter is {facts['num_iter']!r}")
    except (OSError, ValueError, RecursionError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{paths.finished}: damaged ({error!r}). It means that training was finished. To "
            "continue from the last checkpoint anyway, move it away."
        ) from error
    return facts


def extended_by(extend: int, experiments: Sequence[ExperimentPaths]) -> int:
    """Returns the iterations that --extend asks for: `extend` more than the shortest has trained.

    So an interrupted command for several seeds, given again, trains them all equally long.

    Raises:
      ConfigError: If one is not finished.
    """
    if unfinished := [str(paths.root) for paths in experiments if not paths.finished.exists()]:
        raise ConfigError(
            f"--extend continues finished experiments, and {', '.join(unfinished)} "
            f"{'are' if len(unfinished) > 1 else 'is'} not finished. Without --extend, the command "
            "trains or resumes."
        )
    return min(read_finished(paths)["num_iter"] for paths in experiments) + extend


def check_is_unfinished(paths: ExperimentPaths, bound: Mapping[str, Any]) -> str | None:
    """Checks that training is not finished, or that `bound` asks for more training.

    More is more iterations or, after an early end, another `stop_when`.

    Args:
      paths: Paths of the experiment.
      bound: Hyperparameters that gin bindings set, by name.

    Returns:
      How training had ended, if it continues after an early end; else None.

    Raises:
      ConfigError: If it is finished.
    """
    if not paths.finished.exists():
        return None
    facts = read_finished(paths)
    num_iter, because = facts["num_iter"], facts.get("stopped_because")
    goes_on = bound.get("num_iter", num_iter) > num_iter
    if because is not None:
        ended = (
            f"it ended after {facts.get('iteration')} of {num_iter} iterations, because {because}"
        )
        if goes_on or bound.get("stop_when", facts.get("stop_when")) != facts.get("stop_when"):
            return ended
        raise ConfigError(
            f"{paths.root} is finished: {ended}. To continue, add to sac train "
            f"--set stop_when=None, or another condition, or --extend N for {num_iter} + N "
            f"iterations. {_ANEW}"
        )
    if goes_on:
        return None
    raise ConfigError(
        f"{paths.root} is finished: it has trained its {num_iter} iterations. To train as many "
        f"more, add --extend {num_iter} to sac train. {_ANEW}"
    )
