"""Soft Actor-Critic on every core you have.

Usage: sac COMMAND [ARGUMENT...]   (or: python -m tfagents_system COMMAND [ARGUMENT...])
Example: sac train --env Pendulum-v1
`sac COMMAND --help` explains a command and has an example.
"""

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from tfagents_system.commands.table import COMMANDS, function_of
from tfagents_system.core.checkout import version
from tfagents_system.core.errors import EXIT_CONFIG, ConfigError
from tfagents_system.core.names import did_you_mean
from tfagents_system.core.process.ending import print_error
from tfagents_system.core.programs.command_line import run_tool
from tfagents_system.core.programs.program import run_program
from tfagents_system.launch.checks.packages import check_packages
from tfagents_system.launch.experiment.git_state import GitState

PROGRAMS = ("eval", "mirror")  # these end in order on a signal


def usage() -> str:
    """Returns the docstring above and a line for each command."""
    width = max(map(len, COMMANDS))
    rows = [f"  {name:<{width}}  {summary}" for name, (summary, _) in COMMANDS.items()]
    return f"{__doc__}\nCommands:\n" + "\n".join(rows)


def _commit() -> str:
    """Returns the commit in brackets in a checkout; otherwise nothing."""
    state = GitState.of_project()
    return f" (commit {state.short_commit})" if state else ""


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Runs the command that `argv` names, and exits; `argv` defaults to the command line."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["help"] and len(arguments) > 1:
        arguments = [arguments[1], "--help"]
    command = arguments[0] if arguments else "--help"
    if command in ("--help", "-h", "help"):
        print(usage())
        sys.exit()
    if command == "--version":
        print(f"sac {version()}{_commit()}")
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
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # TensorFlow's import prints many lines
    run = run_program if command in PROGRAMS else run_tool
    run(function_of(command), [f"sac {command}", *arguments[1:]])


if __name__ == "__main__":
    main()
