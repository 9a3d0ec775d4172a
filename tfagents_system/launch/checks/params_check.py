"""Finds mistakes in a params file and in gin bindings without running either."""

import ast
import dataclasses
import difflib
import pathlib
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tfagents_system.agents.agent_settings import AgentSettings
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.names import did_you_mean
from tfagents_system.core.programs.params_loader import compile_params
from tfagents_system.core.settings.attribute_names import HOOKS, check_attribute_name
from tfagents_system.core.settings.env_config import ENV_CONFIG_KEYS
from tfagents_system.core.settings.gin_bindings import Binding, parse_binding
from tfagents_system.core.settings.hyperparameters import (
    check_hyperparameter,
    check_is_declared,
    hyperparameters,
)
from tfagents_system.core.settings.names_elsewhere import SETTINGS_ELSEWHERE
from tfagents_system.core.settings.training_settings import TrainingSettings
from tfagents_system.launch.checks.import_check import check_imports

PUBLISHED = hyperparameters(TrainingSettings, AgentSettings)
# Raised by ast.literal_eval; RecursionError and MemoryError if the literal is nested too deeply.
UNREADABLE = (ValueError, TypeError, SyntaxError, OverflowError, RecursionError, MemoryError)


def check_params_file(path: pathlib.Path, import_dirs: Sequence[pathlib.Path]) -> list[str]:
    """Returns notes about names that may be misspelt.

    Args:
      path: Defines (or imports) the class TrainParams.
      import_dirs: Folders from which the params file may import, in addition to Python's path.

    Raises:
      ConfigError: If `path` cannot be a params file; the message names file and line.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the programs show them
        compile_params(path, str(path))
    try:
        return _check_module(ast.parse(path.read_bytes()), path, import_dirs)
    except (RecursionError, MemoryError) as error:  # while descending the tree
        raise ConfigError(f"{path}: nested too deeply for Python.") from error


def notes_on_config(config: Mapping[str, Any], where: str, params: pathlib.Path) -> list[str]:
    """Returns notes about keys of a JSON config that look like ours, and have no effect.

    Args:
      config: The validated JSON config.
      where: Its file, for messages.
      params: A checked params file; keys that it names are its own.
    """
    nodes = ast.walk(ast.parse(params.read_bytes()))
    texts = {node.value for node in nodes if isinstance(node, ast.Constant)}
    names = {name.lower(): name for name in (*PUBLISHED, *SETTINGS_ELSEWHERE)}
    notes = []
    for key in (key for key in config if key not in texts and key not in ENV_CONFIG_KEYS):
        if nearest := difflib.get_close_matches(key, ENV_CONFIG_KEYS, n=1, cutoff=0.8):
            notes.append(f"{where}: the key {key} counts as your own. Did you mean {nearest[0]}?")
        elif name := names.get(key.lower()):
            here = SETTINGS_ELSEWHERE.get(name, f"{name}, in the params file or by --set")
            notes.append(
                f"{where}: the key {key} counts as your own, and sets nothing else. If it is to be "
                f"a setting: here it is {here}."
            )
    return notes


def check_gin_bindings(bindings: Sequence[str], where: str) -> dict[str, Any]:
    """Returns the literal values that `bindings` set, the last one by hyperparameter.

    gin checks bindings of other configurables when the programs start.

    Raises:
      ConfigError: For a misspelt hyperparameter, a value that is not allowed, or invalid syntax.
    """
    parsed = [parse_binding(binding, where) for binding in bindings]
    for binding in parsed:
        check_binding(binding, where)
        _check_has_effect(binding, bindings, where)
    return {b.name: b.value for b in parsed if b.is_hyperparameter and not b.is_reference}


def check_binding(binding: Binding, where: str) -> None:
    """Raises ConfigError if the hyperparameter does not exist or the value is not allowed."""
    if binding.is_hyperparameter:
        check_is_declared(PUBLISHED, binding.name, where)
        if not binding.is_reference:
            place = f"{where}: {binding.text!r}"
            check_hyperparameter(PUBLISHED, binding.name, binding.value, place)


def _check_has_effect(binding: Binding, bindings: Sequence[str], where: str) -> None:
    """Raises ConfigError for what looks like a hyperparameter's binding, but sets none."""
    if binding.is_hyperparameter:
        return
    scope, _, name = binding.name.rpartition("/")
    if scope and name.split(".")[-2:-1] == ["TrainParams"]:
        raise ConfigError(
            f"{where}: {binding.text!r} has the scope {scope!r}, in which nothing makes "
            f"TrainParams; write {binding.text.partition('/')[2]}."
        )
    is_used = any(f"%{name}" in text for text in bindings)
    if name in PUBLISHED and not scope and not is_used:
        raise ConfigError(
            f"{where}: {binding.text!r} defines a macro of gin, which no binding uses; write "
            f"TrainParams.{binding.text}."
        )


def setting_of(bound: Mapping[str, Any], params: pathlib.Path, name: str) -> Any:
    """Returns the value of a hyperparameter that gin bindings or a checked params file set.

    None if neither does, or if the value is an expression, which would have to be run.

    Args:
      bound: The result of `check_gin_bindings`.
      params: The params file.
      name: Name of the hyperparameter.
    """
    return bound[name] if name in bound else _literal_setting(params, name)


def _literal_setting(params: pathlib.Path, name: str) -> Any:
    tree = ast.parse(params.read_bytes())
    classes = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    for member in (member for node in _chain(classes) for member in _members(node)):
        if member.name == name and member.value is not None:
            try:
                return ast.literal_eval(member.value)
            except UNREADABLE:
                return None
    return None


def _check_module(
    tree: ast.Module, path: pathlib.Path, import_dirs: Sequence[pathlib.Path]
) -> list[str]:
    notes = check_imports(tree, path, import_dirs)
    classes = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    if "TrainParams" not in classes.keys() | _bound_names(tree):
        raise ConfigError(
            f"{path}: does not define the class TrainParams."
            + (did_you_mean("TrainParams", classes) if classes else "")
        )
    chain = list(_chain(classes))
    members = [member for node in chain for member in _members(node)]
    bases = {_last_name(base) for node in chain for base in node.bases}
    if chain and not bases:
        raise ConfigError(
            f"{path}:{chain[0].lineno}: TrainParams has no base class; "
            "write class TrainParams(TrainParamsBase)."
        )
    has_known_bases = chain and bases <= {*classes, "TrainParamsBase", "ABC"}
    if has_known_bases and "env_ctor" not in {member.name for member in members}:
        raise ConfigError(
            f"{path}:{chain[0].lineno}: TrainParams does not define env_ctor, the method that "
            "makes an environment: def env_ctor(self, *args, seed=None, **kwargs)."
        )
    for member in members:
        where = f"{path}:{member.line}"
        is_method = member.value is None
        notes.append(check_attribute_name(member.name, PUBLISHED, where, is_method) or "")
        if not is_method and (member.name in PUBLISHED or member.name in HOOKS):
            _check_literal(member, where)
    return [note for note in notes if note]


@dataclasses.dataclass(frozen=True)
class _Member:
    name: str
    line: int
    value: ast.expr | None  # None for a method


def _check_literal(member: _Member, where: str) -> None:
    assert member.value is not None
    try:
        value = ast.literal_eval(member.value)
    except UNREADABLE:  # an expression, which TrainParamsBase checks at run time
        return
    if member.name in HOOKS:
        raise ConfigError(
            f"{where}: TrainParams.{member.name} is {value!r}; expected a method, "
            f"def {member.name}(self, ...)."
        )
    check_hyperparameter(PUBLISHED, member.name, value, where)


def _chain(classes: dict[str, ast.ClassDef]) -> Iterator[ast.ClassDef]:
    """Yields TrainParams and its ancestors in the same file."""
    names, seen = ["TrainParams"], set()
    for name in names:
        if name in classes and name not in seen:
            seen.add(name)
            yield classes[name]
            names += map(_last_name, classes[name].bases)


def _last_name(expression: ast.expr) -> str:
    """Returns the name after the last dot; empty if it is not a name."""
    if isinstance(expression, ast.Attribute):
        return expression.attr
    return expression.id if isinstance(expression, ast.Name) else ""


def _members(node: ast.ClassDef) -> Iterator[_Member]:
    for statement in node.body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield _Member(statement.name, statement.lineno, None)
            if statement.name == "__init__":
                yield from _assignments(ast.walk(statement), of_self=True)
        else:
            yield from _assignments([statement], of_self=False)


def _assignments(nodes: Iterable[ast.AST], of_self: bool) -> Iterator[_Member]:
    for node in nodes:
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
            continue
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if of_self and isinstance(target, ast.Attribute) and _last_name(target.value) == "self":
                yield _Member(target.attr, node.lineno, node.value)
            elif not of_self and isinstance(target, ast.Name):
                yield _Member(target.id, node.lineno, node.value)


def _bound_names(tree: ast.Module) -> set[str]:
    aliases = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }
    return aliases | {member.name for member in _assignments(tree.body, of_self=False)}
