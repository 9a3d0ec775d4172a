"""A sweep's study: Optuna chooses the trials, and ends those that fall behind."""

import math
import pathlib
from collections.abc import Iterator, Mapping, Sequence

from tfagents_system.commands.sweeps.trials import Range, Trial
from tfagents_system.core.checkout import how_to_install
from tfagents_system.core.errors import ConfigError


class Study:
    """An Optuna study that maximizes the score, kept in a file so that it survives a stop."""

    def __init__(self, file: pathlib.Path, ranges: Mapping[str, Range]):
        """Opens the study in `file`, or creates it; only one process at a time may have it.

        Raises:
          ConfigError: If Optuna is not installed, or the study in `file` has other ranges.
        """
        try:
            import optuna
            from optuna.storages import JournalStorage
            from optuna.storages.journal import JournalFileBackend
        except ImportError as error:
            raise ConfigError(
                f"--search needs Optuna ({error}): {how_to_install('optuna')}"
            ) from None
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        _remove_half_line(file)
        self._optuna = optuna
        self._ranges = ranges
        self._study = optuna.create_study(
            study_name="sweep", direction="maximize", load_if_exists=True,
            storage=JournalStorage(JournalFileBackend(str(file))),
            pruner=optuna.pruners.MedianPruner(),
        )  # fmt: skip
        # With the same seed, the first trials after a stop would repeat those before it.
        self._study.sampler = optuna.samplers.TPESampler(seed=self.num_asked, constant_liar=True)
        self._check_trials(file)

    @property
    def num_asked(self) -> int:
        """Number of all trials so far, also of incomplete ones; the next trial has this number."""
        return len(self._study.get_trials(deepcopy=False))

    def earlier_trials(self) -> list[Trial]:
        """Returns the trials so far, without those that a kill has left incomplete."""
        return [Trial(trial.number, dict(trial.params))
                for trial in self._study.get_trials(deepcopy=False)
                if trial.params.keys() == self._ranges.keys()]  # fmt: skip

    def trials(self, count: int) -> Iterator[Trial]:
        """Yields `count` trials in total, those of earlier starts first; asks Optuna lazily."""
        earlier = self.earlier_trials()[:count]
        yield from earlier
        for _ in range(count - len(earlier)):
            trial = self._study.ask()
            for name, range_ in self._ranges.items():
                is_integer = isinstance(range_.low, int) and isinstance(range_.high, int)
                suggest = trial.suggest_int if is_integer else trial.suggest_float
                suggest(name, range_.low, range_.high, log=range_.is_log)
            yield Trial(trial.number, dict(trial.params))

    def falls_behind(self, trial: Trial, returns: Sequence[float]) -> bool:
        """Tells Optuna a trial's evaluations so far; returns whether its pruner would end it.

        It does if, after an evaluation, the best return of the trial is below the median of the
        completed trials, once there are five of them.
        """
        found = self._study.get_trials(deepcopy=False)[trial.number]
        if found.state != self._optuna.trial.TrialState.RUNNING:
            return False
        asked = self._optuna.trial.Trial(self._study, found._trial_id)
        for index in range(len(found.intermediate_values), len(returns)):
            asked.report(returns[index], index)
            if asked.should_prune():
                return True
        return False

    def tell(self, trial: Trial, score: float | None) -> None:
        """Records a score, or that the trial was pruned, unless an earlier start has done it."""
        states = self._optuna.trial.TrialState
        if self._study.get_trials(deepcopy=False)[trial.number].state != states.RUNNING:
            return
        if score is None:
            self._study.tell(trial.number, state=states.PRUNED)
        elif math.isfinite(score):
            self._study.tell(trial.number, score)
        else:
            self._study.tell(trial.number, state=states.FAIL)

    def is_pruned(self, trial: Trial) -> bool:
        """Returns whether the trial was pruned."""
        state = self._study.get_trials(deepcopy=False)[trial.number].state
        return state == self._optuna.trial.TrialState.PRUNED

    def _check_trials(self, file: pathlib.Path) -> None:
        """Marks trials as failed that a kill has left without some of their values.

        Raises:
          ConfigError: If another trial has other ranges.
        """
        states = self._optuna.trial.TrialState
        now = {name: str(range_) for name, range_ in self._ranges.items()}
        for trial in self._study.get_trials(deepcopy=False):
            before = {
                name: str(Range(found.low, found.high, found.log))
                for name, found in trial.distributions.items()
            }
            if before.items() < now.items() and trial.state in (states.RUNNING, states.FAIL):
                if trial.state == states.RUNNING:
                    self._study.tell(trial.number, state=states.FAIL)
            elif before != now:
                raise ConfigError(
                    f"{file} is of another --search: it has {_listed(before)}, not "
                    f"{_listed(now)}. Choose another --name, or give the ranges it has."
                )


def _remove_half_line(file: pathlib.Path) -> None:
    """Cuts off the line that a full disk or a kill has left unfinished: Optuna reads whole ones."""
    if file.exists():
        with file.open("r+b") as log:
            log.truncate(log.read().rfind(b"\n") + 1)


def _listed(ranges: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={range_}" for name, range_ in ranges.items()) or "no ranges"
