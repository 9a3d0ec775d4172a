"""Parses gin bindings without looking up what they name."""

from gin import config_parser

from tfagents_system.core.errors import ConfigError


class _AnyReference(config_parser.ParserDelegate):
    """Accepts references to anything."""

    def configurable_reference(self, scoped_configurable_name: str, evaluate: bool) -> None:
        """Imports nothing."""

    def macro(self, macro_name: str) -> None:
        """Looks nothing up."""


def check_gin_syntax(binding: str, where: str) -> None:
    """Raises ConfigError, prefixed with `where`, unless `binding` has the form `A.b = value`."""
    try:
        statements = list(config_parser.ConfigParser(binding, _AnyReference()))
    except Exception as error:  # many types of exceptions, from Python's tokenizer and from gin
        raise ConfigError(f"{where}: {binding!r} is not a gin binding: {error}") from error
    if [type(statement) for statement in statements] != [config_parser.BindingStatement]:
        raise ConfigError(f"{where}: {binding!r} is not a gin binding, such as A.b = 3.")
