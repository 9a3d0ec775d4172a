"""Command lines: each program and tool has the arguments of the function that it calls.

    def evaluate(exp_dir: str, num_episodes: Annotated[int, AtLeast(1)] = 5, *, stop): ...

has the flags `--exp_dir` (required) and `--num_episodes`. A parameter before `/` is positional; in
a function without such parameters, the first required flag may be, too: `eval logs/x`. A `bool` has
the flags `--video` and `--novideo`; a `tuple` takes several values or repeated flags.
`--num-episodes` is `--num_episodes`. Keyword-only parameters are not part of the command line.
`--help` prints the docstring of the function's module, which has a line `Example: COMMAND`, and the
descriptions of the parameters in the function's section `Args`.
"""

import argparse
import dataclasses
import inspect
import math
import os
import pathlib
import re
import signal
import sys
import threading
import types
import typing
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

from tfagents_system.core.errors import ConfigError, Interrupt
from tfagents_system.core.names import did_you_mean
from tfagents_system.core.process.ending import leave, tell
from tfagents_system.core.process.guest import GUEST
from tfagents_system.core.process.process_start import end_imports
from tfagents_system.core.settings.variables import env_timeout_secs
from tfagents_system.core.state.disk import is_disk_full

EXIT_INTERRUPTED = 130  # 128 + SIGINT
_KINDS = {int: "an integer", float: "a number", str: "a text", pathlib.Path: "a path"}


@dataclasses.dataclass(frozen=True)
class AtLeast:
    """Allows numbers from `minimum` on, to `at_most`: `Annotated[int, AtLeast(1)]`."""

    minimum: float
    at_most: float = math.inf

    def allows(self, value: Any) -> bool:
        """Returns whether `value` is allowed."""
        return self.minimum <= value <= self.at_most

    def describe(self, kind: str) -> str:
        """Returns what is allowed, such as "an integer >= 1"."""
        limit = "" if self.at_most == math.inf else f" and <= {self.at_most}"
        return f"{kind} >= {self.minimum:g}{limit}"


@dataclasses.dataclass(frozen=True)
class OneOf:
    """Allows some values: `Annotated[str, OneOf(("sb3", "sbx"))]`."""

    values: Collection[Any]

    def allows(self, value: Any) -> bool:
        """Returns whether `value` is allowed."""
        return value in self.values

    def describe(self, kind: str) -> str:
        """Returns what is allowed, such as "one of sb3, sbx"."""
        return f"one of {', '.join(map(str, self.values))}"


@dataclasses.dataclass(frozen=True)
class _Parameter:
    """A parameter of the function, as the command line sees it."""

    name: str
    is_flag: bool
    is_repeated: bool
    kind: type
    rule: AtLeast | OneOf | None
    default: Any  # inspect.Parameter.empty if it is required
    help: str

    @property
    def is_required(self) -> bool:
        return self.default is inspect.Parameter.empty

    @property
    def flag(self) -> str:
        """Without the underscore at the end of names that Python keeps for itself: `from_`."""
        return self.name.rstrip("_")

    @property
    def shown_name(self) -> str:
        return f"--{self.flag}" if self.is_flag else self.flag.upper()

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        is_quiet = self.is_required or self.default in (None, ())
        shown_default = "" if is_quiet else f" (default: {self.default})"
        names = self.rule.describe("").capitalize() + "." if isinstance(self.rule, OneOf) else ""
        text = f"{self.help} {names}".strip() + shown_default
        text = text.replace("%", "%%")
        options: dict[str, Any] = {"help": text, "default": argparse.SUPPRESS}
        if not self.is_flag:
            options["metavar"] = self.shown_name
            if self.is_repeated:
                options["nargs"] = "+" if self.is_required else "*"
            elif not self.is_required:
                options["nargs"] = "?"
            parser.add_argument(self.name, **options)
        elif self.kind is bool:
            group = parser.add_mutually_exclusive_group(required=self.is_required)
            group.add_argument(f"--{self.flag}", action="store_true", **options)
            negation = options | {"dest": self.name, "help": argparse.SUPPRESS}
            if self.default is not False:
                negation["help"] = f"the opposite of --{self.flag}"
            group.add_argument(f"--no{self.flag}", action="store_false", **negation)
        else:
            options |= {"dest": self.name, "metavar": self.flag.upper()}
            if self.is_repeated:
                options |= {"action": "extend", "nargs": "+"}
            parser.add_argument(self.shown_name, required=self.is_required, **options)

    def convert(self, given: Any) -> Any:
        if self.kind is bool:
            return given
        return tuple(map(self._value, given)) if self.is_repeated else self._value(given)

    def _value(self, text: str) -> Any:
        try:
            value = self.kind(text)
            is_allowed = self.rule is None or self.rule.allows(value)
            if is_allowed and (self.kind is not float or math.isfinite(value)):
                return value
        except ValueError:
            pass
        kind = _KINDS[self.kind]
        allowed = self.rule.describe(kind) if self.rule else kind
        raise ConfigError(f"{self.shown_name} is {text!r}; expected {allowed}.")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> typing.NoReturn:
        raise ConfigError(f"{message}. See --help.")


def with_arguments(function: Callable[..., Any], argv: Sequence[str]) -> partial[Any]:
    """Returns `function` with all arguments of the command line `argv`, as a `functools.partial`.

    `argv[0]` is the program's name. `--help` prints help and raises SystemExit with code 0.

    Raises:
      ConfigError: If an argument is unknown, missing or has a value that is not allowed.
    """
    parameters = _parameters(function)
    by_place = _flag_given_by_place(parameters)
    parser = _Parser(
        prog=pathlib.Path(argv[0]).name,
        description=sys.modules[function.__module__].__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    arguments = _checked(argv[1:], parameters)
    if by_place:
        parser.epilog = f"{by_place.shown_name} {by_place.flag.upper()} is the same."
    for parameter in parameters:
        is_place = parameter is by_place and not _has(arguments, parameter.shown_name)
        (dataclasses.replace(parameter, is_flag=False) if is_place else parameter).add_to(parser)
    parse = parser.parse_intermixed_args if by_place else parser.parse_args
    given = vars(parse(arguments))
    values = {
        p.name: p.convert(given[p.name]) if p.name in given else p.default for p in parameters
    }
    places = [values.pop(p.name) for p in parameters if not p.is_flag]
    return partial(function, *places, **values)


def run_tool(function: Callable[..., int | None], argv: Sequence[str]) -> typing.NoReturn:
    """Calls `function` with the arguments of the command line `argv`, and exits.

    The exit code is what it returns, 0 for None. A ConfigError, or a file that cannot be read or
    written, becomes one line on standard error and exit code 78; a StorageError exits with 74. An
    exception of user code becomes its traceback, one line and exit code 1. If the reader of the
    output stops reading, like `head`, the tool ends silently. Ctrl-C, SIGTERM and SIGHUP, unless
    they are ignored, end it after its cleanup, with 128 plus their number.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) in (signal.default_int_handler, signal.SIG_DFL):
            signal.signal(number, _interrupt)
    end_imports()
    GUEST.remember()
    threads = threading.enumerate()
    try:
        with GUEST.watching(env_timeout_secs(os.environ)):
            code = with_arguments(function, argv)()
        sys.stdout.flush()
    except KeyboardInterrupt as error:
        code = error.exit_code if isinstance(error, Interrupt) else EXIT_INTERRUPTED
    except Exception as error:
        code = tell(argv, of_user(error))
    leave(code or 0, threads)


def _interrupt(number: int, frame: object) -> typing.NoReturn:
    raise Interrupt(number)


def of_user(error: Exception) -> Exception:
    """Returns a ConfigError for a file that cannot be read or written, else `error`."""
    if not isinstance(error, OSError) or not error.strerror:
        return error
    if error.filename is not None:
        return ConfigError(f"{error.filename}: {error.strerror}.")
    return ConfigError(f"{error.strerror}.") if is_disk_full(error) else error


def flags_of(function: Callable[..., Any]) -> list[str]:
    """Returns the flags that the command line of `function` has."""
    return _flags(_parameters(function))


def _flags(parameters: Sequence[_Parameter]) -> list[str]:
    flags = ["--help"]
    for parameter in parameters:
        if parameter.is_flag:
            flags.append(f"--{parameter.flag}")
            flags += [f"--no{parameter.flag}"] if parameter.kind is bool else []
    return flags


def _checked(arguments: Sequence[str], parameters: Sequence[_Parameter]) -> list[str]:
    """Returns the arguments, with underscores in flags.

    Raises:
      ConfigError: For an unknown flag; argparse would report the flag that is missing instead.
    """
    allowed = _flags(parameters)
    checked = []
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if name.startswith("--"):
            name = f"--{name[2:].replace('-', '_')}"
            if name not in allowed:
                hint = did_you_mean(name, allowed)
                if "--set" in allowed:
                    hint += " Hyperparameters are set by --set NAME=VALUE."
                raise ConfigError(f"{name} is not a flag.{hint} See --help.")
        checked.append(name + equals + value)
    return checked


def _has(arguments: Sequence[str], flag: str) -> bool:
    return any(argument == flag or argument.startswith(f"{flag}=") for argument in arguments)


def _flag_given_by_place(parameters: Sequence[_Parameter]) -> _Parameter | None:
    """Returns the first required flag, unless there are parameters before `/`."""
    if not all(p.is_flag for p in parameters):
        return None
    return next((p for p in parameters if p.is_required), None)


def _parameters(function: Callable[..., Any]) -> list[_Parameter]:
    """Returns the parameters of `function` that the command line has."""
    hints = typing.get_type_hints(function, include_extras=True)
    helps = _section_args(inspect.getdoc(function) or "")
    return [
        _Parameter(
            name=name,
            is_flag=parameter.kind is not inspect.Parameter.POSITIONAL_ONLY,
            default=parameter.default,
            help=helps.get(name, ""),
            **_type(hints[name]),
        )
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY
    ]


def _type(hint: Any) -> dict[str, Any]:
    """Returns the fields of a _Parameter that its annotation determines."""
    rule, is_repeated = None, False
    if typing.get_origin(hint) is typing.Annotated:
        hint, rule = typing.get_args(hint)
    if typing.get_origin(hint) in (types.UnionType, typing.Union):  # T | None
        (hint,) = (kind for kind in typing.get_args(hint) if kind is not types.NoneType)
    if typing.get_origin(hint) is tuple:  # tuple[T, ...]
        hint, is_repeated = typing.get_args(hint)[0], True
    assert hint is bool or hint in _KINDS, f"no command line has values of {hint}"
    return {"kind": hint, "rule": rule, "is_repeated": is_repeated}


def _section_args(doc: str) -> dict[str, str]:
    """Returns the description of each parameter in a docstring's section `Args`."""
    section = doc.partition("\nArgs:\n")[2].partition("\n\n")[0]
    entries = re.findall(r"^  (\w+): (.*(?:\n    .*)*)", section, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}
