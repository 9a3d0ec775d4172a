"""Trains experiments of a sweep, several at a time."""

import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tfagents_system.commands.sweeps.experiments import Experiment
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.process.cpus import available_cpus, cpu_count, cpu_list
from tfagents_system.core.process.process_start import launch_arguments
from tfagents_system.launch import start


class Ended(NamedTuple):
    """The end of an experiment's process."""

    experiment: Experiment
    exit_code: int


class _Run(NamedTuple):
    experiment: Experiment
    process: subprocess.Popen[bytes]
    slot: Sequence[str]


class ParallelRuns:
    """Runs experiments, each in a free slot; Ctrl-C, SIGTERM and SIGHUP stop all.

    For the main thread only.
    """

    def __init__(self, slots: Iterable[Sequence[str]]):
        """Handles signals from now on; `slots` comes from `slots_of`."""
        self.is_stopped = False
        self._slots = list(slots)
        self._runs: list[_Run] = []
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # as by nohup
                signal.signal(number, lambda number, frame: self.stop_all())

    @property
    def has_place(self) -> bool:
        """True if another experiment may start."""
        return bool(self._slots) and not self.is_stopped

    @property
    def experiments(self) -> list[Experiment]:
        """The running experiments."""
        return [run.experiment for run in self._runs]

    def start(self, experiment: Experiment) -> None:
        """Starts an experiment; its output is appended to its log."""
        slot = self._slots.pop()
        with experiment.log.open("ab") as output:
            process = subprocess.Popen(
                slot, **launch_arguments(experiment.environ), stdin=subprocess.DEVNULL,
                stdout=output, stderr=output,
                start_new_session=True,  # Ctrl-C reaches it only through the handler
            )  # fmt: skip
        self._runs.append(_Run(experiment, process, slot))
        if self.is_stopped:  # by a signal meanwhile
            process.terminate()

    def stop(self, experiment: Experiment) -> None:
        """Stops an experiment in order, with everything saved; it ends a little later."""
        for run in self._runs:
            if run.experiment == experiment:
                run.process.terminate()

    def take_ended(self) -> list[Ended]:
        """Returns the experiments that have ended since the last call; does not block."""
        codes = [(run, run.process.poll()) for run in self._runs]
        self._runs = [run for run, code in codes if code is None]
        ended = [(run, code) for run, code in codes if code is not None]
        self._slots += [run.slot for run, _ in ended]
        return [Ended(run.experiment, code) for run, code in ended]

    def stop_all(self) -> None:
        """Stops all experiments in order, and starts no more; they end a little later."""
        self.is_stopped = True
        for run in self._runs:
            run.process.terminate()


def slots_of(placement: str, parallel: int) -> list[list[str]]:
    """Returns the command that trains an experiment, for each of the parallel slots.

    On this machine they divide its CPUs. On a cluster, an experiment waits for its CPUs.

    Raises:
      ConfigError: If there are fewer CPUs.
    """
    module = {"slurm": "tfagents_system.launch.clusters.slurm_wait"}.get(placement, start.MODULE)
    command = [sys.executable, "-m", module]
    if placement != "local":
        return [command] * parallel
    cpus = available_cpus()
    if parallel > cpu_count():
        raise ConfigError(f"--parallel is {parallel}, but there are {cpu_count()} CPUs.")
    sets = [cpu_list(cpus[i::parallel]) for i in range(parallel)]
    return [["taskset", "--cpu-list", cpu_set, *command] for cpu_set in sets]
