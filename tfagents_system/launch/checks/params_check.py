"""Finds mistakes in a params file and in gin bindings without running either."""

import ast
import dataclasses
import pathlib
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tfagents_system.agents.agent_settings import AgentSettings
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.names import did_you_mean
from tfagents_system.core.settings.attribute_names import check_attribute_name
from tfagents_system.core.settings.gin_syntax import check_gin_syntax
from tfagents_system.core.settings.hyperparameters import (
    check_hyperparameter,
    check_is_declared,
    hyperparameters,
)
from tfagents_system.core.settings.training_settings import TrainingSettings
from tfagents_system.launch.checks.import_check import check_imports

PUBLISHED = hyperparameters(TrainingSettings, AgentSettings)
# What ast.literal_eval raises; RecursionError and MemoryError if the literal is nested too deeply.
UNREADABLE = (ValueError, TypeError, SyntaxError, OverflowError, RecursionError, MemoryError)
BINDING = re.compile(r"(?:[\w.]*\.)?TrainParams\.(?P<name>\w+)\s*=\s*(?P<value>.*)", re.DOTALL)


def check_params_file(path: pathlib.Path, import_dirs: Sequence[pathlib.Path]) -> list[str]:
    """Returns notes about names that may not be what they are meant as.

    Args:
      path: Defines (or imports) the class TrainParams.
      import_dirs: Folders, besides Python's own path, that the params file may import from.

    Raises:
      ConfigError: If `path` cannot be a params file; the message names file and line.
    """
    try:
        return _check_module(_parse(path), path, import_dirs)
    except (RecursionError, MemoryError) as error:  # of Python's parser, or on the way down a tree
        raise ConfigError(f"{path}: nested too deeply for Python.") from error


def check_gin_bindings(bindings: Sequence[str], where: str) -> dict[str, Any]:
    """Returns the literal hyperparameters that `bindings` set, the last of each name.

    Bindings of other configurables are gin's to check, when the programs start.

    Raises:
      ConfigError: For a misspelt hyperparameter, a value that is not allowed, or no binding at all.
    """
    values: dict[str, Any] = {}
    for binding in bindings:
        if "=" not in binding:
            raise ConfigError(
                f"{where}: {binding!r} is not a gin binding; write TrainParams.num_iter = 500."
            )
        if not (match := BINDING.fullmatch(binding)):
            check_gin_syntax(binding, where)
            continue
        name, value = match["name"], match["value"].strip()
        check_is_declared(PUBLISHED, name, where)
        if value.startswith(("@", "%")):  # a gin reference or macro
            check_gin_syntax(binding, where)
            continue
        try:
            values[name] = ast.literal_eval(value)
        except UNREADABLE as error:
            raise ConfigError(
                f"{where}: {binding!r}: {value!r} is not a Python literal or a gin reference."
            ) from error
        check_hyperparameter(PUBLISHED, name, values[name], f"{where}: {binding!r}")
        check_gin_syntax(binding, where)
    return values


def _parse(path: pathlib.Path) -> ast.Module:
    try:
        tree = ast.parse(path.read_bytes(), str(path))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the programs show them
            compile(tree, str(path), "exec", dont_inherit=True)  # finds what the parser does not
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot read the params file ({error.strerror}). Set SAC_PARAMS to a Python "
            "file such as tfagents_system/pendulum_params.py."
        ) from error
    except (SyntaxError, ValueError) as error:
        place, reason = str(path), str(error)
        if isinstance(error, SyntaxError):
            place, reason = f"{path}:{error.lineno or 1}", error.msg
        raise ConfigError(f"{place}: not valid Python: {reason}") from error
    return tree


def _check_module(
    tree: ast.Module, path: pathlib.Path, import_dirs: Sequence[pathlib.Path]
) -> list[str]:
    notes = check_imports(tree, path, import_dirs)
    classes = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    if "TrainParams" in classes:
        return notes + _check_train_params(classes, path)
    if "TrainParams" not in _bound_names(tree):
        raise ConfigError(
            f"{path}: does not define the class TrainParams."
            + (did_you_mean("TrainParams", classes) if classes else "")
        )
    return notes


@dataclasses.dataclass(frozen=True)
class _Member:
    name: str
    line: int
    value: ast.expr | None  # None for a method


def _check_train_params(classes: dict[str, ast.ClassDef], path: pathlib.Path) -> list[str]:
    line = classes["TrainParams"].lineno
    chain = _bases_in_file(classes)
    bases = {_last_name(base) for node in chain for base in node.bases}
    members = [member for node in chain for member in _members(node)]
    if not bases:
        raise ConfigError(
            f"{path}:{line}: TrainParams has no base class; "
            "write class TrainParams(TrainParamsBase)."
        )
    notes = []
    for member in members:
        where = f"{path}:{member.line}"
        is_method = member.value is None
        notes.append(check_attribute_name(member.name, PUBLISHED, where, is_method))
        if member.name in PUBLISHED and not is_method:
            _check_literal(member, where)
    has_known_bases = bases <= {*classes, "TrainParamsBase", "ABC"}
    if has_known_bases and "env_ctor" not in {member.name for member in members}:
        raise ConfigError(
            f"{path}:{line}: TrainParams does not define env_ctor, the method that makes an "
            "environment: def env_ctor(self, *args, seed=None, **kwargs)."
        )
    return [note for note in notes if note]


def _check_literal(member: _Member, where: str) -> None:
    assert member.value is not None
    try:
        value = ast.literal_eval(member.value)
    except UNREADABLE:  # an expression; TrainParamsBase checks its value at run time
        return
    check_hyperparameter(PUBLISHED, member.name, value, where)


def _bases_in_file(classes: dict[str, ast.ClassDef]) -> list[ast.ClassDef]:
    """Returns TrainParams and those of its ancestors that the same file defines."""
    chain, names = [], ["TrainParams"]
    while names:
        node = classes.pop(names.pop(0), None)
        if node is not None:
            chain.append(node)
            names += [_last_name(base) for base in node.bases]
    classes.update({node.name: node for node in chain})
    return chain


def _last_name(expression: ast.expr) -> str:
    """The name after the last dot; empty for anything else than a name."""
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
