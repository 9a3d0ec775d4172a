"""The options of `sac train --env` and `sac new` that are written into a project's files."""

import ast
import contextlib
import dataclasses
import importlib.util
import os
import pathlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tfagents_system.commands.mlagents.document import Sources
from tfagents_system.core.errors import ConfigError
from tfagents_system.launch.checks.params_check import UNREADABLE

WRAP_EXAMPLE = "gymnasium.wrappers.FrameStackObservation:4"


@dataclasses.dataclass(frozen=True)
class WrapperCall:
    """A wrapper around the environment: its class, and its arguments after the environment."""

    module: str
    name: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def arguments(self) -> str:
        """The arguments in Python's syntax: 4, stack=True."""
        named = (f"{name}={literal(value)}" for name, value in self.kwargs.items())
        return ", ".join([*map(literal, self.args), *named])

    def __str__(self) -> str:
        """Returns the text for --wrap."""
        colon = ":" if self.args or self.kwargs else ""
        return f"{self.module}.{self.name}{colon}{self.arguments}"


@dataclasses.dataclass(frozen=True)
class EnvironmentOptions:
    """Options of an environment and of its run; None and empty stand for the defaults."""

    kwargs: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # of its constructor
    wrappers: tuple[WrapperCall, ...] = ()  # the innermost first
    horizon: int | None = None  # env steps
    workers: int | None = None
    mlagents: Sources | None = None  # settings

    @classmethod
    def parse(
        cls,
        env_kwargs: Sequence[str] = (),
        wrap: Sequence[str] = (),
        horizon: int | None = None,
        workers: int | None = None,
        mlagents: Sources | None = None,
    ) -> "EnvironmentOptions":
        """Reads the values of the flags with these names.

        Args:
          env_kwargs: NAME=VALUE each; a value that is not a Python literal is a string.
          wrap: `module:Class` or `module.Class` each, with arguments after a colon.
          horizon: >= 1.
          workers: >= 1.
          mlagents: Has the values of four flags.

        Raises:
          ConfigError: For another syntax.
        """
        kwargs = dict(map(_parse_kwarg, env_kwargs))
        return cls(kwargs, tuple(map(_parse_wrapper, wrap)), horizon, workers, mlagents)

    def flags(self) -> dict[str, str]:
        """Returns each flag that was given, with its value in one spelling."""
        texts = {
            "--env_kwargs": " ".join(
                f"{name}={literal(self.kwargs[name])}" for name in sorted(self.kwargs)
            ),
            "--wrap": " ".join(map(str, self.wrappers)),
            "--horizon": str(self.horizon or ""),
            "--workers": str(self.workers or ""),
        }
        if self.mlagents is not None:
            texts |= {
                "--mlagents": str(self.mlagents.trainer),
                "--behavior": self.mlagents.behavior or "",
                "--curriculum": str(self.mlagents.curriculum or ""),
                "--sampler": str(self.mlagents.sampler or ""),
            }
        return {flag: text for flag, text in texts.items() if text}


def literal(value: Any) -> str:
    """Returns a value that was read from a Python literal as a literal again.

    `repr` does not: 1e999 is infinity, whose `repr` is a name that nothing defines.
    """
    if isinstance(value, float | complex):
        return ast.unparse(ast.Constant(value))
    if isinstance(value, dict):
        return f"{{{', '.join(f'{literal(key)}: {literal(of)}' for key, of in value.items())}}}"
    if isinstance(value, list | tuple | set) and value:
        parts = ", ".join(map(literal, value))
        if isinstance(value, list):
            return f"[{parts}]"
        return f"{{{parts}}}" if isinstance(value, set) else f"({parts}{',' * (len(value) == 1)})"
    return repr(value)


def sources_of(
    mlagents: pathlib.Path | None,
    behavior: str | None,
    curriculum: pathlib.Path | None,
    sampler: pathlib.Path | None,
) -> Sources | None:
    """Returns the files of the flags with these names; None without any.

    Raises:
      ConfigError: If the others are given without `mlagents`.
    """
    if mlagents is not None:
        return Sources(mlagents, behavior, curriculum, sampler)
    if behavior or curriculum or sampler:
        raise ConfigError("--behavior, --curriculum and --sampler need a file of ML-Agents.")
    return None


@contextlib.contextmanager
def importing_from_here() -> Iterator[None]:
    """Makes modules of the current folder importable, as for a params file in that folder."""
    folder = os.getcwd()
    sys.path.append(folder)
    try:
        yield
    finally:
        if folder in sys.path:
            sys.path.remove(folder)


def _parse_kwarg(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise ConfigError(
            f"--env_kwargs is {text!r}; expected NAME=VALUE, such as render_mode=rgb_array."
        )
    try:
        return name, ast.literal_eval(value)
    except UNREADABLE:
        return name, value


def _parse_wrapper(text: str) -> WrapperCall:
    place, _, rest = text.partition(":")
    name, _, arguments = rest.partition(":")
    module = place
    if "." in place and not (name.isidentifier() and _is_module(place)):
        module, _, name = place.rpartition(".")
        arguments = rest
    if not all(part.isidentifier() for part in (*module.split("."), name)):
        raise _unreadable(text)
    try:
        call = ast.parse(f"call({arguments})", mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            raise _unreadable(text)
        args = tuple(map(_value, call.args))
        kwargs = {keyword.arg: _value(keyword.value) for keyword in call.keywords if keyword.arg}
    except UNREADABLE:
        raise _unreadable(text) from None
    if len(kwargs) < len(call.keywords):  # **something
        raise _unreadable(text)
    return WrapperCall(module, name, args, kwargs)


def _value(node: ast.expr) -> Any:
    """Returns a literal's value; a bare word is a string, as for --env_kwargs."""
    return node.id if isinstance(node, ast.Name) else ast.literal_eval(node)


def _is_module(name: str) -> bool:
    with importing_from_here(), contextlib.suppress(ImportError, ValueError):
        return importlib.util.find_spec(name) is not None
    return False  # a part of the name is not a package


def _unreadable(text: str) -> ConfigError:
    return ConfigError(
        f"--wrap is {text!r}; expected module:Class or module.Class, then a colon and arguments "
        f"that are Python literals, such as {WRAP_EXAMPLE}. Other arguments can be written into "
        "the params file of sac new."
    )
