"""Turns hyperparameters on the command line into gin bindings."""

from collections.abc import Mapping, Sequence

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
