"""Sweeps whose experiments are trained by a script, at once."""

import os
import sys

from tfagents_system.commands.sweeps.experiments import Task
from tfagents_system.core.process.process_start import WORKING_DIR_VARIABLE

# Leaves what training does: a return of -100 times the sum of seed and trial. The file fail_<name>
# makes an experiment end with a message and 1; hang_<name> makes it wait for SIGTERM.
SCRIPT = f"""
import os, pathlib, re, signal, sys, time
os.chdir(os.environ["{WORKING_DIR_VARIABLE}"])
name = os.environ["SAC_EXP_NAME"]
with open("tape", "a") as tape:
    tape.write(name + "\\n")
if pathlib.Path("fail_" + name).exists():
    sys.exit("no such leg")
root = pathlib.Path("logs") / name
(root / "episodes").mkdir(parents=True, exist_ok=True)
trial, seed = map(int, re.fullmatch(r".*_trial_(\\d+)_seed_(\\d+)", name).groups())
result = -100 * (trial + seed)
(root / "episodes" / "eval_0.csv").write_text(
    "worker,iteration,train_step,env_step,return,length,wall_time,success\\r\\n"
    f"0,1,100,40,{{result}},20,1011,\\r\\n")
if pathlib.Path("hang_" + name).exists():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    pathlib.Path("hangs").touch()
    while True:
        time.sleep(0.05)
(root / "finished.json").write_text('{{"num_iter": 1}}')
"""
SLOT = [sys.executable, "-c", SCRIPT]


def make_task(seeds=(1,), name="arm", files=None):
    """A task in the current folder; `files` are its params and config."""
    task = Task(name, {"PATH": os.environ["PATH"]}, "local", seeds, files or {})
    task.folder.mkdir(parents=True, exist_ok=True)
    return task
