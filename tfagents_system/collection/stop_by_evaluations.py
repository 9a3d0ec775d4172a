"""Decides by the evaluations so far whether `stop_when` ends training."""

from collections.abc import Sequence

from tfagents_system.core.meters import mean_of
from tfagents_system.core.programs.params_loader import Run
from tfagents_system.core.settings.stop_condition import (
    RETURN,
    SUCCESS,
    TIME,
    parse_stop_when,
)
from tfagents_system.records.run_history import (
    evaluated_episodes,
    numbers_of_evaluations,
    reports_success,
)
from tfagents_system.records.success import success_rate


def reason_to_stop(run: Run) -> str | None:
    """Returns the condition that the newest complete evaluations fulfil, with their values."""
    conditions = [c for c in parse_stop_when(run.params.stop_when) if c.quantity != TIME]
    if not conditions:
        return None
    evaluations = _quantities(run)
    for condition in conditions:
        values = [e[condition.quantity] for e in evaluations if condition.quantity in e]
        newest = values[-condition.num_evaluations :]
        if len(newest) == condition.num_evaluations and all(map(condition.holds, newest)):
            return f"{condition.text} ({_shown(newest)})"
    return None


def _quantities(run: Run) -> list[dict[str, float]]:
    """Returns the quantities of each complete evaluation, in order of train step."""
    paths, has_been_seen = run.paths, reports_success(run.paths)
    numbers = numbers_of_evaluations(paths)
    evaluations = []
    for train_step, rows in sorted(evaluated_episodes(paths).items()):
        if len(rows) < run.params.n_eval_episodes:
            continue
        found = {RETURN: mean_of([row.episode_return for row in rows])}
        if (rate := success_rate([row.success for row in rows], has_been_seen)) is not None:
            found[SUCCESS] = rate
        evaluations.append(numbers.get(train_step, {}) | found)
    return evaluations


def _shown(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.6g}" for value in values)
