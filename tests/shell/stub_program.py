"""Stands for sac_replay_buffer.py, sac_train.py and sac_collect.py in the tests of the scripts.

Appends its start and end to `tape`, records how it was started in `seen_<name>.json`, then waits to
be stopped. STUB_<NAME>: crash, wrong (exit code 78), deaf (to every stop), finish (the learner,
when all have started), evaluates (after that, until there is a file `evaluated`), superseded (exit
code 75, once there is a file `superseded`), unsaved (exit code 74, at a stop) or unsavable (at
once). STUB_CHILD is a command that every worker gives to a
shell, as an environment that starts its simulator.
"""

import json
import os
import pathlib
import signal
import sys
import time

from tfagents_system.core import errors
from tfagents_system.core.process.guest import GUEST
from tfagents_system.core.programs.program import StopFlag, run_program
from tfagents_system.core.state.files import write_json_atomically
from tfagents_system.core.state.paths import ExperimentPaths

UNSAVED = "the last 200 train steps are not saved: no disk. The same command resumes."
NAME = {"sac_replay_buffer.py": "replay", "sac_train.py": "learner"}.get(
    pathlib.Path(sys.argv[0]).name, f"worker_{os.environ.get('SLURM_PROCID')}"
)


def main(
    exp_dir: str,
    port: int = 0,
    replay_address: str = "",
    num_cpus: int = 1,
    env_timeout_secs: float = 600.0,
    incarnation: int = 0,
    *,
    stop: StopFlag,
) -> int:
    seen = {
        "pid": os.getpid(),
        "argv": sys.argv,
        "environ": dict(os.environ),
        "cpus": sorted(os.sched_getaffinity(0)),
        "network": os.readlink("/proc/self/ns/net"),
    }
    paths = ExperimentPaths(pathlib.Path(exp_dir))

    def tape(event: str) -> None:
        with (paths.root / "tape").open("a") as file:
            file.write(f"{NAME} {event}\n")

    def num_starts() -> int:
        return (paths.root / "tape").read_text().count(" starts\n")

    num_services = sum(1 for _ in paths.services.iterdir())
    (paths.root / f"seen_{NAME}.json").write_text(json.dumps(seen))
    tape("starts")
    mode = os.environ.get(f"STUB_{NAME.upper()}")
    if mode == "crash":
        raise RuntimeError("no such motor")
    if mode == "wrong":
        raise errors.ConfigError("config.json: leg_length is -1; expected a number > 0.")
    if NAME == "learner":
        paths.run_spec.touch()
    if mode == "exits":
        with GUEST.visit("TrainParams.env_ctor"):
            sys.exit("please set SIM_HOME")
    if mode == "is killed":
        with GUEST.visit("TrainParams.env_ctor"):
            os.kill(os.getpid(), signal.SIGKILL)
    if mode == "catches signals":
        with GUEST.visit("TrainParams.env_ctor"):
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: tape("hears it for itself"))
    if NAME.startswith("worker") and (child := os.environ.get("STUB_CHILD")):
        os.system(child)
    time.sleep(0.5)
    if mode == "unsavable":
        raise errors.StorageError(UNSAVED)
    while mode == "deaf" or not stop:
        if mode == "superseded" and (paths.root / "superseded").exists():
            tape("is superseded")
            raise errors.SupersededError("superseded by number 2")
        if NAME == "learner" and mode == "finish" and num_starts() >= num_services:
            write_json_atomically(paths.finished, {"num_iter": 10})
        is_over = mode != "evaluates" or (paths.root / "evaluated").exists()
        if NAME != "replay" and paths.finished.exists() and is_over:
            tape("finishes")
            return errors.EXIT_FINISHED
        time.sleep(0.02)
    if mode == "dies at a stop":
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.2)  # saves
    tape("stops")
    if mode == "unsaved":
        raise errors.StorageError(UNSAVED)
    return errors.EXIT_STOPPED


run_program(main, sys.argv)
