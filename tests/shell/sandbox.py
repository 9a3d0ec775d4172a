"""The scripts of the project with stub programs, under a real supervise."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence

from tfagents_system.core.waiting import wait_until

PROJECT = pathlib.Path(__file__).parents[2]
PARAMS = """
from tfagents_system.train_params_base import TrainParamsBase

class TrainParams(TrainParamsBase):
    num_iter = 10

    def env_ctor(self, *args, seed=None, **kwargs):
        return None
"""


class Sandbox:
    """A copy of the scripts and of `core` and `launch`, with stubs for the three programs."""

    def __init__(self, project: pathlib.Path) -> None:
        self.project = project
        package = project / "tfagents_system"
        for folder in ("core", "launch"):
            shutil.copytree(PROJECT / "tfagents_system" / folder, package / folder)
        for folder in ("config", "locks"):
            shutil.copytree(PROJECT / folder, project / folder)
        for script in [PROJECT / "run_script.sh", PROJECT / "train_script.sh",
                       *PROJECT.glob("training_variables*.sh")]:  # fmt: skip
            shutil.copy(script, project)
        self.write("setup.sh", f"#!/bin/sh\necho '{pathlib.Path(sys.executable).parent}'\n")
        (project / "setup.sh").chmod(0o755)
        for name in ("sac_replay_buffer", "sac_train", "sac_collect"):
            shutil.copy(pathlib.Path(__file__).with_name("stub_program.py"), package / f"{name}.py")
        shutil.copy(PROJECT / "tfagents_system" / "__main__.py", package)
        self.write("tfagents_system/__init__.py", "")
        self.write("tfagents_system/pendulum_params.py", PARAMS)
        self.exp_dir = project / "logs" / "pendulum"
        self.started: list[subprocess.Popen[str]] = []

    def set(self, file: str, **values: int) -> None:
        """Gives variables of a script of launch/local/ other values."""
        path = self.project / "tfagents_system/launch/local" / file
        text = path.read_text()
        for name, value in values.items():
            text, count = re.subn(rf"\b{name}=\d+", f"{name}={value}", text)
            assert count == 1, name
        path.write_text(text)

    def start_again_soon(self) -> None:
        """Shortens the delays before a program that fails starts again to a tenth."""
        path = self.project / "tfagents_system/launch/local/restart_budget.py"
        text = path.read_text()
        assert text.count("else 2.0 ** (") == 1
        path.write_text(text.replace("else 2.0 ** (", "else 0.1 * 2.0 ** ("))

    def write(self, path: str, text: str) -> None:
        (self.project / path).write_text(text)

    def start(self, variables: str = "training_variables_pendulum.sh", terminal: int | None = None,
              prefix: Sequence[str] = (), folder: pathlib.Path | None = None,
              **environ: str) -> subprocess.Popen[str]:  # fmt: skip
        """Starts run_script.sh, on a terminal as its foreground job if one is given.

        `prefix` is a command that becomes run_script.sh, such as setpriv; it is called in `folder`,
        by default in the project's.
        """
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("SAC_", "SLURM_"))}
        script = f"{self.project}/run_script.sh" if folder else "./run_script.sh"
        argv = [*prefix, script, variables]
        if terminal is not None:
            argv = ["setsid", "--ctty", "--wait", *argv]
        run = subprocess.Popen(
            argv, cwd=folder or self.project, env=clean | environ, text=True, stdin=terminal,
            stdout=subprocess.PIPE if terminal is None else terminal, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.started.append(run)
        return run

    def run(
        self,
        *arguments: str,
        prefix: Sequence[str] = (),
        folder: pathlib.Path | None = None,
        **environ: str,
    ) -> tuple[int, str, str]:
        """Returns exit code, standard output and standard error of a whole run."""
        run = self.start(*arguments, prefix=prefix, folder=folder, **environ)
        out, err = run.communicate(timeout=60)
        return run.returncode, out, err

    def tape(self) -> list[str]:
        try:
            return (self.exp_dir / "tape").read_text().splitlines()
        except FileNotFoundError:
            return []

    def await_tape(self, *events: str) -> None:
        wait_until(lambda: set(events) <= set(self.tape()), 60, f"{events} in {self.tape()}")

    def seen(self, name: str) -> dict:
        return json.loads((self.exp_dir / f"seen_{name}.json").read_text())

    def alive(self) -> dict[int, str]:
        """Returns {pid: command line} of every process that holds an experiment's lock."""
        found = {}
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                files = [os.readlink(link) for link in (process / "fd").iterdir()]
                if any(f.startswith(str(self.project)) and f.endswith("/lock") for f in files):
                    found[int(process.name)] = (process / "cmdline").read_text()
            except OSError:
                continue
        return found

    def pid_of(self, *words: str) -> int:
        return next(pid for pid, line in self.alive().items() if all(w in line for w in words))


def slowdown() -> float:
    """Returns how many times longer programs take now than on a machine without other work."""
    before, began = os.times(), time.monotonic()
    subprocess.run([sys.executable, "-c", "import json, ctypes, subprocess"], check=True)
    wall_secs, after = time.monotonic() - began, os.times()
    own = after.children_user + after.children_system
    own -= before.children_user + before.children_system
    return max(1.0, wall_secs / max(own, 0.01))


STARTS = [f"{name} starts" for name in ("learner", "replay", "worker_0", "worker_1")]
TWO = {"SAC_NUM_COLLECT_WORKERS": "2"}
