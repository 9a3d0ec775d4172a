"""A real run of the whole system that is small enough for a test."""

import contextlib
import csv
import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from tfagents_system.core.state.generations import generations
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.state.reports import read_report
from tfagents_system.core.waiting import wait_until

PROJECT = pathlib.Path(__file__).parents[2]
HORIZON = 10
STEPS_PER_ITER = 20
# Of any environment whose episodes are short.
TINY = ["num_iter=2", "num_steps_per_iter=20", "n_train_episodes_per_iter=1", "eval_period_itrs=1",
        "n_buffer_init_episodes=1", "train_batch_size=16", "n_eval_episodes=1",
        "actor_fc_layer_params=(8, 8)", "critic_joint_fc_layer_params=(8, 8)",
        "checkpoint_period_itrs=1"]  # fmt: skip

# Each step rewards 100 level + mass, which the curriculum may set. While the file "pace" exists,
# an env step takes as many seconds as it says; the rate limiter then paces the learner, too.
# A file fault_<worker> makes that worker's environment fail `once` or `always`, `hang`, end its
# process, or observe what does not fit its spec; see _fail_as_asked. A file reset_<worker> makes
# its next reset return None, a tuple, or a wrong shape.
# An observation is [LIFE * 1e-7, env steps of this process * 1e-5], so that every transition can be
# told from all others; the file life_<LIFE> has a byte for each step of a worker.
PARAMS = """
import json
import os
import pathlib
import time

import numpy as np
from tf_agents.environments import py_environment
from tf_agents.specs import array_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.train_params_base import TrainParamsBase

# Process ids of SLURM's hosts, whose names end in a number (tests/slurm), are alike.
LIFE = os.getpid() + 100_000 * int(os.environ.get("SLURMD_NODENAME", "n0").rpartition("n")[2])


class TinyEnv(py_environment.PyEnvironment):
    num_steps_of_process = 0

    def __init__(self, folder, worker_id):
        super().__init__()
        self._folder = pathlib.Path(folder)
        self._worker_id = worker_id
        self._state = {"mass": 0.0, "level": 0}
        self._num_steps = 0

    def observation_spec(self):
        return array_spec.BoundedArraySpec([2], np.float32, -10.0, 10.0, "observation")

    def action_spec(self):
        return array_spec.BoundedArraySpec([1], np.float32, -1.0, 1.0)

    def set_state(self, state):
        self._state.update(state)
        line = {"worker": self._worker_id, "pid": os.getpid(), "state": state}
        with (self._folder / "set_state").open("a") as tape:
            tape.write(json.dumps(line) + "\\n")

    def _observe(self):
        return np.array([LIFE * 1e-7, TinyEnv.num_steps_of_process * 1e-5], np.float32)

    def _reset(self):
        self._num_steps = 0
        observation = self._observe()
        fault = self._folder / f"reset_{self._worker_id}"
        if fault.exists():
            kind = fault.read_text()
            fault.unlink()
            if kind == "shape":
                return ts.restart(observation[:1])
            return {"None": None, "tuple": (observation, {})}[kind]
        return ts.restart(observation)

    def _step(self, action):
        try:
            time.sleep(float((self._folder / "pace").read_text()))
        except (FileNotFoundError, ValueError):
            pass
        kind = self._fail_as_asked()
        self._num_steps += 1
        reward = 100 * self._state["level"] + self._state["mass"]
        if self._worker_id is not None:  # not in evaluation
            TinyEnv.num_steps_of_process += 1
            with (self._folder / f"life_{LIFE}").open("ab") as tape:
                tape.write(b".")
        observation = self._observe()
        if kind in ("nan", "inf"):
            observation[1] = float(kind)
        elif kind == "out of bounds":
            observation[1] = 1000.0
        elif kind == "float64":
            observation = observation.astype(np.float64)
        elif kind == "shape":
            observation = observation[:1]
        elif kind == "text":
            observation = np.array(["left", "right"])
        if self._num_steps == HORIZON:
            return ts.truncation(observation, reward)
        return ts.transition(observation, reward)

    def _fail_as_asked(self):
        fault = self._folder / f"fault_{self._worker_id}"
        try:
            kind = fault.read_text()
        except FileNotFoundError:
            return
        if kind != "always":
            fault.unlink()
        if kind in ("once", "always"):
            raise RuntimeError("the motor is gone")
        if kind == "hang":
            time.sleep(1000)
        if kind == "exits":
            os._exit(3)
        if kind == "is killed":  # as for memory
            os.kill(os.getpid(), 9)
        return kind


HORIZON = 10


class TrainParams(TrainParamsBase):
    num_iter = 60
    num_steps_per_iter = 20
    train_batch_size = 8
    fresh_samples_per_step = 4
    n_buffer_init_episodes = 4
    n_episodes_in_buffer = 100
    n_eval_episodes = 2
    eval_period_itrs = 20
    log_period_itrs = 5
    checkpoint_period_itrs = 15
    actor_fc_layer_params = (8,)
    critic_joint_fc_layer_params = (8,)

    def collect_env_args_kwargs(self, id):
        return (), {"worker_id": id}

    def env_ctor(self, *args, seed=None, worker_id=None, **kwargs):
        return TinyEnv(self.env_config["folder"], worker_id)
"""


class TinyRun:
    """A copy of the project in `folder`, whose run_script.sh trains PARAMS and `more_params`."""

    def __init__(self, folder: pathlib.Path, more_params: str = "", curriculum: Any = None):
        self.folder = folder
        self.project = folder / "project"
        ignored = shutil.ignore_patterns("logs", "tests", ".*")
        shutil.copytree(PROJECT, self.project, ignore=ignored)
        (self.project / "setup.sh").write_text(
            f"#!/bin/sh\necho '{pathlib.Path(sys.executable).parent}'\n"
        )
        self._write("params.py", PARAMS + more_params)
        config = {"horizon": HORIZON, "folder": str(folder)}
        if curriculum is not None:
            config["curriculum"] = curriculum
        self._write("config.json", json.dumps(config))
        self.use(f"{folder}/params.py", f"{folder}/config.json")
        self.paths = ExperimentPaths(self.project / "logs" / "tiny")
        self._started: list[subprocess.Popen] = []
        self.output = ""  # of the run that ended last

    def _write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def use(self, params: str, config: str) -> None:
        """Trains with these files from now on."""
        self._write("variables.sh", f"SAC_EXP_NAME=tiny\nSAC_PARAMS={params}\n"
                    f"SAC_CONFIG={config}\nSAC_SEED=1\n")  # fmt: skip

    def set_pace(self, secs_per_env_step: float) -> None:
        self._write("pace", str(secs_per_env_step))

    def set_fault(self, worker_id: int, kind: str, where: str = "fault") -> None:
        self._write("next_fault", kind)
        (self.folder / "next_fault").rename(self.folder / f"{where}_{worker_id}")  # never half

    def start(
        self, num_workers: int = 1, prefix: Sequence[str] = (), **environ: str
    ) -> subprocess.Popen:
        """Starts run_script.sh; `prefix` is a command that becomes it, such as setpriv."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("SAC_", "SLURM_"))}
        # A file, because a pipe that is read at the end only is full after an hour.
        with self._output_of(len(self._started)).open("w") as output:
            run = subprocess.Popen(
                [*prefix, "./run_script.sh", str(self.folder / "variables.sh")],
                cwd=self.project,
                env=clean | {"SAC_NUM_COLLECT_WORKERS": str(num_workers)} | environ,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a process group to send signals to
                # Under nohup the tests ignore it, and what a shell is told to ignore it cannot
                # trap.
                preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
            )
        self._started.append(run)
        return run

    def _output_of(self, index: int) -> pathlib.Path:
        return self.folder / f"output_{index}.txt"

    def await_end(self, run: subprocess.Popen, timeout_secs: float) -> int:
        """Returns the exit code; shows the logs if it is not 0 or 143."""
        run.wait(timeout=timeout_secs)
        self.output = self._output_of(self._started.index(run)).read_text()
        print(self.output)
        if run.returncode not in (0, 143):
            print(self.logs())
        return run.returncode

    def wait_for(self, condition, timeout_secs: float, what: str) -> None:
        def ended():
            return any(run.poll() is not None for run in self._started[-1:])

        try:
            wait_until(lambda: condition() or ended(), timeout_secs, what)
        except TimeoutError:
            print(self.logs())
            raise
        assert condition(), f"the run ended before {what}: {self.logs()}"

    def status(self, program: str) -> dict[str, Any]:
        report = read_report(self.paths, program)
        return dataclasses.asdict(report) if report else {}

    def train_step(self) -> int:
        return self.status("learner").get("train_step", 0)

    def await_train_step(self, train_step: int, timeout_secs: float = 180) -> None:
        self.wait_for(lambda: self.train_step() >= train_step, timeout_secs,
                      f"train step {train_step}")  # fmt: skip

    def generations(self) -> list[int]:
        """Train steps of the saved generations, newest first."""
        return [int(path.name) for path in generations(self.paths.checkpoints)]

    def alive(self) -> dict[int, str]:
        """Returns {pid: command line} of every process that has the experiment's lock open."""
        found = {}
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if any(link.samefile(self.paths.lock) for link in (process / "fd").iterdir()):
                    found[int(process.name)] = (process / "cmdline").read_text()
            except OSError:  # ended meanwhile, or another user's
                continue
        return found

    def pid(self, program: str) -> int | None:
        """Process id of sac_train.py and the like (of a worker: `SLURM_PROCID` too), if it runs."""
        script, _, worker_id = program.partition(" ")
        for pid, command in self.alive().items():
            module = f"tfagents_system.{script.removesuffix('.py')}\0"
            if module not in command or "restart_budget" in command:
                continue
            try:
                environ = pathlib.Path(f"/proc/{pid}/environ").read_text().split("\0")
            except OSError:  # ended meanwhile
                continue
            if not worker_id or f"SLURM_PROCID={worker_id}" in environ:
                return pid
        return None

    def kill(self, program: str) -> int:
        """Kills with -9; returns the process id."""
        pid = self.pid(program)
        assert pid is not None, f"{program} does not run: {self.alive()}"
        os.kill(pid, signal.SIGKILL)
        return pid

    def kill_everything(self) -> None:
        """Kills all programs, the launcher too, with -9, and waits for their end."""
        wait_until(lambda: not self._kill_alive(), 60, "the end of all programs")

    def port(self) -> int:
        script = (self.paths.services / "replay/program.sh").read_text()
        return int(re.search(r"--port=(\d+)", script)[1])

    def episodes(self, kind: str, worker_id: int) -> list[dict[str, float]]:
        with (self.paths.episodes / f"{kind}_{worker_id}.csv").open(newline="") as file:
            return [
                {name: float(value) for name, value in row.items() if value}
                for row in csv.DictReader(file)
            ]

    def restored_steps(self) -> list[int]:
        """Train steps that the learner has restored, in order."""
        log = self.paths.stdout("learner").read_text()
        return [int(step) for step in re.findall(r"Restored train step (\d+)", log)]

    def set_states(self) -> list[dict[str, Any]]:
        lines = (self.folder / "set_state").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def logs(self) -> str:
        files = sorted((self.paths.root / "stdout").glob("*.log"))
        return "\n".join(f"--- {f.name}\n{f.read_text()[-6000:]}" for f in files)

    def end(self) -> None:
        """Kills what is left, and what that has started meanwhile."""
        for run in self._started:
            run.kill()
        wait_until(lambda: not self._kill_alive(), 60, "the end of all programs")
        for run in self._started:
            run.wait(timeout=10)

    def _kill_alive(self) -> bool:
        """Kills all programs that there are now; returns whether there were any."""
        pids = list(self.alive())
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return bool(pids)
