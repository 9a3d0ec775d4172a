"""Runs whole trainings by run_script.sh and reads their progress from the files they write."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psutil

from benchmarks.ours.programs import EXAMPLES, PROJECT, next_report
from benchmarks.process_stats import pss_mb
from tfagents_system.core.state.paths import ExperimentPaths

STOP_TIMEOUT_SECS = 170.0  # train_script.sh gives workers 20 s, the learner 120 s, the server 20 s
FINISHED, STOPPED = 0, 143  # exit codes of run_script.sh
PROGRAMS = {
    "tfagents_system.sac_replay_buffer": "replay", "tfagents_system.sac_train": "learner",
    "tfagents_system.sac_collect": "worker",
}  # fmt: skip


class TrainingRun:
    """A running experiment."""

    def __init__(
        self,
        process: subprocess.Popen,
        started: float,
        paths: ExperimentPaths,
        output: pathlib.Path,
    ):
        """`started` is the unix time of the command, `output` the file of its output."""
        self.paths = paths
        self.started = started
        self._process = process
        self._output = output

    def next_report(
        self,
        name: str,
        is_wanted: Callable[[Any], bool] = lambda report: True,
        timeout_secs: float = 300.0,
    ) -> Any:
        """Waits for a new status report; see `programs.next_report`."""
        return next_report(self.paths, name, is_wanted, self.check, timeout_secs)

    def await_training(self, num_train_steps: int = 1, timeout_secs: float = 300.0) -> None:
        """Waits until `num_train_steps` are done."""
        self.next_report("learner", lambda r: r.train_step >= num_train_steps, timeout_secs)

    def check(self) -> None:
        """Raises RuntimeError if the run has ended."""
        if self._process.poll() is not None:
            raise RuntimeError(f"run_script.sh ended with {self._process.returncode}:\n"
                               f"{self._output.read_text()[-2000:]}")  # fmt: skip

    def pss_mb(self) -> dict[str, list[float]]:
        """Returns the memory of each program by role: replay, learner, worker."""
        memory: dict[str, list[float]] = {role: [] for role in PROGRAMS.values()}
        for process in psutil.Process(self._process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                start = process.cmdline()[1:3]
                if start[:1] == ["-m"] and start[-1] in PROGRAMS:
                    memory[PROGRAMS[start[-1]]].append(pss_mb(process.pid))
        return memory

    def stop(self) -> None:
        """Stops the run; raises RuntimeError if it does not end correctly."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(STOP_TIMEOUT_SECS)
        if code not in (FINISHED, STOPPED):
            raise RuntimeError(f"run_script.sh ended with {code}:\n"
                               f"{self._output.read_text()[-2000:]}")  # fmt: skip


@contextlib.contextmanager
def training_run(
    environment: str, bindings: Sequence[str] = (), num_workers: int | None = None, seed: int = 1
) -> Iterator[TrainingRun]:
    """Trains in a new experiment until the end of the block, which stops and deletes it.

    Args:
      environment: A key of EXAMPLES.
      bindings: gin bindings.
      num_workers: None lets the launcher choose.
      seed: Seed of the run.
    """
    name = f"bench_{os.getpid()}_{time.time_ns()}"
    params, config = EXAMPLES[environment]
    environ = os.environ | {
        "SAC_EXP_NAME": name, "SAC_PARAMS": params, "SAC_CONFIG": config, "SAC_SEED": str(seed),
        "SAC_GIN_BINDINGS": "; ".join(bindings),
        "SAC_NUM_COLLECT_WORKERS": "auto" if num_workers is None else str(num_workers),
    }  # fmt: skip
    command = ["setpriv", "--pdeathsig", "TERM", "./run_script.sh", "training_variables.sh"]
    paths = ExperimentPaths(PROJECT / "logs" / name)
    with tempfile.NamedTemporaryFile() as output:
        started = time.time()
        process = subprocess.Popen(
            command, cwd=PROJECT, env=environ, stdin=subprocess.DEVNULL,
            stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            run = TrainingRun(process, started, paths, pathlib.Path(output.name))
            yield run
            run.stop()
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(STOP_TIMEOUT_SECS)
            shutil.rmtree(paths.root, ignore_errors=True)
