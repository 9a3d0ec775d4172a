"""Turns hyperparameters on the command line into gin bindings."""

from collections.abc import Mapping, Sequence

from tfagents_system.agents.table import ALGORITHMS
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.gin_bindings import parse_assignment
from tfagents_system.core.settings.variables import GIN_BINDINGS, join_bindings
from tfagents_system.launch.checks.params_check import check_binding


def bindings_of(assignments: Sequence[str], flag: str = "--set") -> list[str]:
    """Returns the gin bindings of assignments such as "train_batch_size=512".

    `flag` names their source, for messages.

    Raises:
      ConfigError: For another syntax, an unknown hyperparameter, or a value that is not allowed.
    """
    bindings = [parse_assignment(assignment, flag) for assignment in assignments]
    for binding in bindings:
        check_binding(binding, flag)
    return [binding.text for binding in bindings]


def with_bindings(environ: Mapping[str, str], bindings: Sequence[str]) -> dict[str, str]:
    """Returns `environ` with `bindings` appended to its SAC_GIN_BINDINGS."""
    texts = [environ.get(GIN_BINDINGS, ""), *bindings]
    return {**environ, GIN_BINDINGS: join_bindings(texts)} if bindings else dict(environ)


def with_algorithm(algo: str | None, assignments: Sequence[str]) -> tuple[str, ...]:
    """Returns the assignments with the one of --algo; raises ConfigError if they name another."""
    if algo is None:
        return tuple(assignments)
    if (named := algorithm_in(assignments)) not in (None, algo):
        raise ConfigError(f"--algo is {algo}, and --set has algorithm={named}: give only one.")
    return (f"algorithm={algo}", *assignments)


def algorithm_in(assignments: Sequence[str]) -> str | None:
    """Returns the algorithm that assignments name last, if any."""
    bindings = [parse_assignment(text, "--set") for text in assignments]
    names = [binding.value for binding in bindings if binding.name == "algorithm"]
    return names[-1] if names and names[-1] in ALGORITHMS else None
