"""Forecasts a run for `sac check`: time, bottleneck, workers, memory."""

import dataclasses
import pathlib
from collections.abc import Mapping

from tfagents_system.assembly import Assembly
from tfagents_system.commands.checks.learner_speed import LearnerSpeed, measure_learner
from tfagents_system.commands.checks.measurements import Measured
from tfagents_system.commands.checks.prediction import (
    Allotment,
    Prediction,
    Speeds,
    Work,
    predict,
    workers_worth_having,
)
from tfagents_system.commands.checks.rows import Row
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.meters import format_duration
from tfagents_system.core.process import memory
from tfagents_system.core.process.cpus import cpu_count
from tfagents_system.core.programs.limits import shortages
from tfagents_system.core.settings.params import Params
from tfagents_system.core.settings.variables import Settings
from tfagents_system.core.state.disk import format_bytes
from tfagents_system.launch.local.places import place_here
from tfagents_system.launch.local.plan import everything

SERVER_BYTES = 150e6  # of an empty replay server
ADVICE = {
    "workers": "More workers; or learn more from each env step: a new project by --algo xqc, or "
    "more num_steps_per_iter.",
    "learner": "More SAC_TRAIN_CPUS up to about four, smaller networks, or fewer "
    "num_steps_per_iter.",
    "replay server": "More SAC_REVERB_CPUS, or fresh_samples_per_step = 64.",
    "evaluators": "More SAC_EVAL_WORKERS, or a longer eval_period_itrs.",
    "CPUs": "A machine with more of them.",
}


@dataclasses.dataclass(frozen=True)
class Forecast:
    """The forecast of a run on this machine, from measurements."""

    work: Work
    speeds: Speeds
    allotment: Allotment
    learner: LearnerSpeed

    @property
    def prediction(self) -> Prediction:
        """The predicted time."""
        return predict(self.work, self.speeds, self.allotment)


def make_forecast(
    settings: Settings,
    environ: Mapping[str, str],
    params: Params,
    made: Assembly,
    measured: Measured,
) -> Forecast:
    """Measures the learner on the CPUs that it would get; blocks for at least 20 s.

    Args:
      settings: The user's settings.
      environ: The SAC_* variables of `settings`.
      params: The user's TrainParams.
      made: Made from `params`.
      measured: Measurements of a worker.

    Raises:
      ConfigError: If the CPUs do not suffice, or the learner fails.
    """
    num_cpus = cpu_count()
    programs = everything(settings, pathlib.Path("logs"), num_cpus, memory.total_bytes())
    services = {s.name: s for s in place_here(settings, programs, "localhost:0")}
    (num_threads,) = (program.num_cpus for program in programs if program.name == "learner")
    learner = services["learner"]
    speed = measure_learner(environ, learner.cpus, num_threads, learner.env)
    names = [service.partition("_")[0] for service in services]
    allotment = Allotment(
        num_cpus=num_cpus,
        num_workers=names.count("worker"),
        num_evaluators=names.count("evaluator"),
        replay_cpus=min(num_cpus, len(services["replay"].cpus)),
        shares=learner.cpus == services["replay"].cpus,
        takes_turns=settings.deterministic,
    )
    speeds = Speeds(
        env_step=measured.step_secs,
        env_step_cpu=measured.cpu_secs,
        eval_step=measured.greedy_step_secs,
        train_step=speed.train_step_secs,
        train_step_cpu=speed.train_step_cpu_secs,
        start=speed.start_secs,
    )
    work = Work.of_run(params, made.layout, made.row_bytes, measured.episode_length)
    return Forecast(work, speeds, allotment, speed)


def rows_of(forecast: Forecast, measured: Measured) -> list[Row]:
    """Returns the rows of the forecast."""
    return [
        _learner_row(forecast),
        _time_row(forecast),
        _bottleneck_row(forecast),
        _workers_row(forecast, measured),
        _memory_row(forecast, measured),
        *_limit_rows(forecast),
    ]


def _limit_rows(forecast: Forecast) -> list[Row]:
    """Returns a row for each limit that is too low; none if all suffice."""
    allotment = forecast.allotment
    num_programs = 2 + allotment.num_workers + allotment.num_evaluators
    return [
        Row("limits", "WRONG" if shortage.is_fatal else "note", shortage.text, shortage.advice)
        for shortage in shortages(num_programs)
    ]


def failed_row(error: ConfigError) -> Row:
    """Returns the row for a run that cannot be predicted."""
    return Row("learner", "WRONG", str(error), "The run would stop with this, too.")


def _learner_row(forecast: Forecast) -> Row:
    speeds, learner = forecast.speeds, forecast.learner
    value = (
        f"{1 / speeds.train_step:.0f} train steps/s in {learner.arithmetic}, ready after "
        f"{format_duration(speeds.start)}"
    )
    return Row("learner", "ok", value)


def _time_row(forecast: Forecast) -> Row:
    work, prediction = forecast.work, forecast.prediction
    value = (
        f"about {format_duration(prediction.total)}: start {format_duration(prediction.start)}, "
        f"first fill {format_duration(prediction.fill)}, training "
        f"{format_duration(prediction.training)} for {work.train_steps:,} train steps and "
        f"{work.env_steps:,.0f} env steps"
    )
    return Row("time", "ok", value)


def _bottleneck_row(forecast: Forecast) -> Row:
    prediction = forecast.prediction
    ranked = sorted(prediction.needs.items(), key=lambda item: -item[1])
    value = ", ".join(f"{what} {format_duration(secs)}" for what, secs in ranked)
    return Row("bottleneck", "ok", f"the {ranked[0][0]}; alone each would need: {value}. "
               f"To be faster: {ADVICE[ranked[0][0]]}")  # fmt: skip


def _workers_row(forecast: Forecast, measured: Measured) -> Row:
    allotment = forecast.allotment
    fitting = max(1, int(memory.available_bytes() / 1e6 / max(measured.worker_own_mb, 1.0)))
    worth = workers_worth_having(forecast.work, forecast.speeds, allotment, fitting)
    value = f"{allotment.num_workers} planned, {worth} worth having on this machine"
    if worth == allotment.num_workers or allotment.takes_turns:
        return Row("workers", "ok", value)
    other = dataclasses.replace(allotment, num_workers=worth, shares=True)
    faster = predict(forecast.work, forecast.speeds, other).training
    if worth < allotment.num_workers:
        return Row("workers", "ok", f"{value}: the others would wait for the learner")
    advice = (f"SAC_NUM_COLLECT_WORKERS={worth} would train in {format_duration(faster)} instead "
              f"of {format_duration(forecast.prediction.training)}.")  # fmt: skip
    return Row("workers", "note", value, advice)


def _memory_row(forecast: Forecast, measured: Measured) -> Row:
    allotment, work = forecast.allotment, forecast.work
    collectors = allotment.num_workers + allotment.num_evaluators
    workers_bytes = collectors * measured.worker_own_mb * 1e6
    episodes = work.env_steps / measured.episode_length / allotment.num_workers
    episodes /= measured.num_slots  # per simulator, whose agents share its leaks
    leaked = measured.leak_mb * 1e6 * episodes if measured.has_leak else 0.0
    parts = {
        "libraries that all share": forecast.learner.libraries_mb * 1e6,
        "learner": forecast.learner.own_mb * 1e6,
        f"{collectors} worker" + ("s" if collectors > 1 else ""): workers_bytes,
        "full replay buffer": SERVER_BYTES + work.replay_bytes,
    }
    if leaked:
        parts["leaks of the environments"] = collectors * leaked
    total, free = sum(parts.values()), memory.available_bytes()
    shown = ", ".join(f"{what} {format_bytes(int(size))}" for what, size in parts.items())
    value = f"at most {format_bytes(int(total))} ({shown}); {format_bytes(int(free))} are free now"
    if total <= free:
        return Row("memory", "ok", value)
    advice = "Fewer workers, or fewer n_episodes_in_buffer, or fix the leak."
    return Row("memory", "WRONG" if total > memory.total_bytes() else "note", value, advice)
