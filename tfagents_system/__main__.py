"""Soft Actor-Critic on every core you have.

Usage: sac COMMAND [ARGUMENT...]   (or: python -m tfagents_system COMMAND [ARGUMENT...])
Example: sac completion bash
`sac COMMAND --help` explains a command and has an example.
"""

import importlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from tfagents_system.core.command_line import flags_of, print_error, run_tool
from tfagents_system.core.errors import EXIT_CONFIG, ConfigError
from tfagents_system.core.names import did_you_mean
from tfagents_system.core.program import run_program
from tfagents_system.launch.packages import check_packages

# Of each command its summary and its function, which is imported when it is called: some bring in
# TensorFlow.
COMMANDS = {
    "train": ("train an environment, or a variables file", "commands.train:train"),
    "new": ("write the files of a new project", "commands.new:new"),
    "eval": ("run and film greedy episodes of a policy", "run:evaluate"),
    "watch": ("show what a run does, until it ends", "commands.watch:watch"),
    "profile": ("show where the programs of a run spend their time", "launch.profile:profile"),
    "sweep": ("try settings, and rank them by return", "commands.sweep:sweep"),
    "list": ("list experiments with their state, return and size", "commands.list_runs:list_runs"),
    "check": ("check an environment, and predict the run", "commands.check:check"),
    "plot": ("draw learning curves", "evaluation.plots:plot"),
    "report": ("write a report of a run as one HTML file", "evaluation.report:report"),
    "compare": ("tell a difference between runs from noise", "evaluation.compare:compare"),
    "verify": ("train a deterministic run again, and compare", "commands.verify:verify"),
    "mirror": ("hand a run over to W&B or MLflow", "commands.mirror:mirror"),
    "export": ("write a policy for use without this project", "export.policy:export"),
    "latency": ("measure how long exported policies take", "export.latency:latency"),
    "prune": ("remove what an experiment does not need any more", "commands.prune:prune"),
    "completion": ("print the completion of bash or zsh", "__main__:completion"),
}
PROGRAMS = ("eval", "mirror")  # end in order when they get a signal


def completion(shell: str = "bash", /) -> None:
    """Prints a script that completes commands and flags: `source <(sac completion)`.

    Args:
      shell: bash or zsh.

    Raises:
      ConfigError: For another shell.
    """
    if shell not in ("bash", "zsh"):
        raise ConfigError(f"There is no completion for {shell!r}; allowed is bash or zsh.")
    cases = "".join(
        f"    {name}) words='{' '.join(flags_of(function_of(name)))}' ;;\n" for name in COMMANDS
    )
    print(
        ("autoload -U +X bashcompinit && bashcompinit\n" if shell == "zsh" else "") + "_sac() {\n"
        "  local words=\n"
        '  case "${COMP_WORDS[1]}" in\n' + cases + "  esac\n"
        f"  ((COMP_CWORD > 1)) || words='{' '.join(COMMANDS)}'\n"
        '  COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))\n'
        "}\n"
        "complete -o bashdefault -o default -F _sac sac"
    )


def function_of(command: str) -> Callable[..., Any]:
    """Returns the function behind a command."""
    module, _, name = COMMANDS[command][1].partition(":")
    return getattr(importlib.import_module(f"tfagents_system.{module}"), name)


def usage() -> str:
    """Returns the docstring above and a line for each command."""
    width = max(map(len, COMMANDS))
    rows = [f"  {name:<{width}}  {summary}" for name, (summary, _) in COMMANDS.items()]
    return f"{__doc__}\nCommands:\n" + "\n".join(rows)


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Calls the command that `argv` names, by default the command line, and exits."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    command = arguments[0] if arguments else "--help"
    if command in ("--help", "-h", "help"):
        print(usage())
        sys.exit()
    if command not in COMMANDS:
        print_error(["sac"], ConfigError(
            f"{command} is not a command.{did_you_mean(command, COMMANDS)} See sac --help."
        ))  # fmt: skip
        sys.exit(EXIT_CONFIG)
    try:
        check_packages()
    except ConfigError as error:
        print_error([f"sac {command}"], error)
        sys.exit(EXIT_CONFIG)
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `sac list | head`
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # TensorFlow's import prints a page
    run = run_program if command in PROGRAMS else run_tool
    run(function_of(command), [f"sac {command}", *arguments[1:]])


if __name__ == "__main__":
    main()
