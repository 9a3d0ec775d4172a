"""The commands of `sac`."""

import importlib
from collections.abc import Callable
from typing import Any

# Summary and function of each command. The function is imported when it is called, because some
# import TensorFlow.
COMMANDS = {
    "train": ("train an environment, or a variables file", "commands.train:train"),
    "new": ("write the files of a new project", "commands.new:new"),
    "eval": ("evaluate a policy in greedy episodes, and film it", "run:evaluate"),
    "record": ("record episodes of a policy or a person", "commands.record:record"),
    "demonstrations": (
        "show, check or convert demonstrations",
        "commands.demonstrations:demonstrations",
    ),
    "clone": ("train a policy on demonstrations alone", "commands.clone:clone"),
    "watch": ("show a run until it ends", "commands.watch:watch"),
    "pause": ("pause collection, learning or both of a run", "commands.pause:pause"),
    "resume": ("resume a paused run", "commands.pause:resume"),
    "profile": ("show how the programs of a run spend their time", "launch.show.profile:profile"),
    "sweep": ("try settings, and rank them by return", "commands.sweep:sweep"),
    "list": ("list experiments with their state, return and size", "commands.list_runs:list_runs"),
    "check": ("check an environment, and predict the run", "commands.check:check"),
    "plot": ("draw learning curves", "comparison.plots:plot"),
    "report": ("write a report of a run as one HTML file", "comparison.report:report"),
    "compare": ("test whether runs differ by more than noise", "comparison.compare:compare"),
    "verify": ("train a deterministic run again, and compare", "commands.verify:verify"),
    "mirror": ("mirror a run to W&B or MLflow", "commands.mirror:mirror"),
    "export": ("export a policy for use without this project", "export.policy:export"),
    "latency": ("measure the latency of exported policies", "export.latency:latency"),
    "pack": ("pack an experiment into one file, to evaluate it elsewhere", "commands.pack:pack"),
    "prune": ("delete files that an experiment no longer needs", "commands.prune:prune"),
    "completion": ("print completions for bash or zsh", "commands.completion:completion"),
}


def function_of(command: str) -> Callable[..., Any]:
    """Returns the function of a command."""
    module, _, name = COMMANDS[command][1].partition(":")
    return getattr(importlib.import_module(f"tfagents_system.{module}"), name)
