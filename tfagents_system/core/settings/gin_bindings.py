"""Parses gin bindings, such as `TrainParams.num_iter = 500`, without looking up what they name."""

import dataclasses
import re
from collections.abc import Iterable
from typing import Any

from gin import config_parser

from tfagents_system.core.errors import ConfigError


@dataclasses.dataclass(frozen=True)
class Binding:
    """One `A.b = value`."""

    text: str  # the whole text, for gin
    name: str  # the bound name: a hyperparameter, or "A.b" of another configurable
    is_hyperparameter: bool
    value: Any
    is_reference: bool  # whether it refers to something of gin's; then `value` only names it


class _AnyReference(config_parser.ParserDelegate):
    """Accepts references to anything."""

    def __init__(self) -> None:
        self.has_reference = False

    def configurable_reference(self, scoped_configurable_name: str, evaluate: bool) -> str:
        """Imports nothing."""
        self.has_reference = True
        return f"@{scoped_configurable_name}{'()' if evaluate else ''}"

    def macro(self, macro_name: str) -> str:
        """Looks nothing up."""
        self.has_reference = True
        return f"%{macro_name}"


def parse_binding(text: str, where: str) -> Binding:
    """Parses a binding; raises ConfigError, prefixed with `where`, if `text` is not one."""
    delegate = _AnyReference()
    try:
        statements = list(config_parser.ConfigParser(text, delegate))
    except Exception as error:  # of many types, from Python's tokenizer and from gin
        reason = str(error)
        if "malformed node" in reason:  # it shows the address of an expression's node
            reason = "the value is not a Python literal; texts are in quotes, as 'td3' is"
        raise ConfigError(f"{where}: {text!r} is not a gin binding: {reason}") from error
    if [type(statement) for statement in statements] != [config_parser.BindingStatement]:
        raise ConfigError(
            f"{where}: {text!r} is not a gin binding; write TrainParams.num_iter = 500."
        )
    (bound,) = statements
    is_hyperparameter = bound.selector.split(".")[-1] == "TrainParams" and not bound.scope
    name = bound.arg_name if is_hyperparameter else text.partition("=")[0].strip()
    return Binding(text, name, is_hyperparameter, bound.value, delegate.has_reference)


def last_of_each_name(texts: Iterable[str], where: str) -> list[str]:
    """Returns the bindings in force: the last one of each name.

    Raises:
      ConfigError: If a text is not a binding; prefixed with `where`.
    """
    last: dict[str, str] = {}
    for text in texts:
        name = parse_binding(text, where).name
        last.pop(name, None)  # so that it moves to the end
        last[name] = text
    return list(last.values())


def parse_assignment(text: str, where: str) -> Binding:
    """Parses NAME=VALUE for a hyperparameter; a VALUE that is not a literal is a string.

    Raises:
      ConfigError: For another syntax.
    """
    name, equals, value = (part.strip() for part in text.partition("="))
    name = name.removeprefix("TrainParams.")
    if not (re.fullmatch(r"\w+", name) and equals and value):
        raise ConfigError(f"{where} is {text!r}; expected NAME=VALUE, without spaces around =.")
    in_one_line = re.sub(r"\s*\n\s*", " ", value)  # lines separate bindings
    for literal in (in_one_line, f"({in_one_line})"):  # gin needs parentheses: 256,256
        try:
            return parse_binding(f"TrainParams.{name} = {literal}", where)
        except ConfigError:
            continue
    return parse_binding(f"TrainParams.{name} = {value!r}", where)
