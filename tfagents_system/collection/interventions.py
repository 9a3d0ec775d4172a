"""The actions that were really taken: a person or a safety layer may have replaced the policy's."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tree

from tfagents_system.core.nests import Nest
from tfagents_system.core.state.reports import INTERVENTIONS
from tfagents_system.environments.info_flags import FlagError, read_flag
from tfagents_system.environments.info_keys import ACTION, INTERVENTION
from tfagents_system.environments.own_arrays import InvalidArrayError, own


class TakenActionError(InvalidArrayError):
    """The action that an environment reports as taken, or the flag beside it, is wrong."""


class Interventions:
    """The interventions of one episode, as the info of each env step reports them.

    interventions = Interventions(action_spec)
    action = interventions.taken(action, environment.get_info())   # after each env step
    interventions.numbers   # {"interventions": 0.25}
    """

    def __init__(self, action_spec: Nest):
        """`action_spec` has the bounds of actions."""
        self._spec = action_spec
        self._num_steps = self._num_interventions = 0
        self._are_reported = False
        self.is_newest = False  # whether the newest env step had one

    def taken(self, action: Any, info: Any) -> Any:
        """Returns the action of an env step: the policy's unless the info has another.

        Raises:
          TakenActionError: If the other is none of the action spec, or the info's flag is none.
        """
        self._num_steps += 1
        self.is_newest = False
        if not isinstance(info, Mapping):
            return action
        if info.get(INTERVENTION) is not None:
            self._are_reported = True
            self.is_newest = self._flag(info[INTERVENTION])
            self._num_interventions += self.is_newest
        reported = info.get(ACTION)
        return action if reported is None else self._checked(reported)

    @property
    def numbers(self) -> dict[str, float]:
        """The share of env steps with an intervention, if the info has said whether they had."""
        if not self._are_reported:
            return {}
        return {INTERVENTIONS: self._num_interventions / self._num_steps}

    def _flag(self, reported: Any) -> bool:
        try:
            return read_flag(reported, f"info[{INTERVENTION!r}]")
        except FlagError as error:
            raise TakenActionError(
                f"{error}: whether another has acted at env step {self._num_steps} of the episode "
                "(docs/interventions.md)."
            ) from None

    def _checked(self, reported: Any) -> Any:
        try:
            values = tree.flatten_up_to(self._spec, reported, check_types=False)
        except (TypeError, ValueError) as error:
            raise self._error("", f"is built otherwise: {str(error).splitlines()[0]}") from None
        leaves = zip(tree.flatten_with_path(self._spec), values, strict=True)
        checked = [self._checked_leaf(path, spec, value) for (path, spec), value in leaves]
        return tree.unflatten_as(self._spec, checked)

    def _checked_leaf(self, path: tuple[Any, ...], spec: Any, value: Any) -> Any:
        name = "".join(f"[{part!r}]" for part in path)
        array = np.asarray(value)
        if array.shape != tuple(spec.shape):
            raise self._error(name, f"has shape {list(array.shape)}, not {list(spec.shape)}")
        if array.dtype.kind not in "biuf":
            raise self._error(name, f"has the type {array.dtype}, which is not a number")
        cast = array.astype(spec.dtype)
        if spec.dtype.kind in "iu" and not np.array_equal(cast, array):
            raise self._error(name, f"is {array.tolist()}, which is not an integer")
        if not np.all((spec.minimum <= cast) & (cast <= spec.maximum)):  # nor NaN
            raise self._error(
                name, f"is {array.tolist()}, beyond {spec.minimum.tolist()} to "
                f"{spec.maximum.tolist()}"
            )  # fmt: skip
        return own(cast)

    def _error(self, name: str, what: str) -> TakenActionError:
        return TakenActionError(
            f"info[{ACTION!r}]{name}, the action that the environment reports as taken at env step "
            f"{self._num_steps} of the episode, {what}. Expected an action of its action space; "
            "give the entry another name if it is something else (docs/interventions.md)."
        )
