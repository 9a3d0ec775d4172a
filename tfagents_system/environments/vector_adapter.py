"""Adapts vector environments of gymnasium, whose environments are the slots of a worker."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import tree
from tf_agents.trajectories import time_step as ts

from tfagents_system.core.errors import ConfigError
from tfagents_system.environments.adapter import wrong_step_error
from tfagents_system.environments.gymnasium_adapter import GymnasiumEnvironment
from tfagents_system.environments.own_arrays import is_finite


class GymnasiumVectorEnvironment(GymnasiumEnvironment):
    """Adapts a gymnasium.vector.VectorEnv of version 1.1 or later.

    A slot is one of its environments. With any `autoreset_mode`, the last time step of an episode
    has its true last observation, and no step leads from an episode to the next one.

    As a PyEnvironment it is slot 0: the others get the same actions.
    """

    def __init__(self, env: Any, seed: int | None = None):
        """Wraps `env`; see the base class.

        Raises:
          ConfigError: Also if `env` does not say in its metadata how it resets.
        """
        super().__init__(_Single(env), seed)
        self._vector = env
        mode = env.metadata.get("autoreset_mode")
        self._mode = getattr(mode, "value", mode)
        if self._mode not in ("NextStep", "SameStep", "Disabled"):
            raise ConfigError(
                f"{self._owner}: metadata['autoreset_mode'] is {mode!r}; expected an "
                "AutoresetMode of gymnasium.vector: what a step after the end of an episode does."
            )
        self._idle_action = tree.map_structure(
            lambda spec: np.broadcast_to(spec.minimum, spec.shape).astype(spec.dtype),
            self._action_spec,
        )
        self.num_slots: int = env.num_envs
        self._infos: dict[int, Any] = {}
        # Slots whose episode has ended: with the first observation of the next one, if it is known.
        self._ended: dict[int, Any] = {}
        self._newest: dict[int, ts.TimeStep] = {}  # by slot
        self._abandoned: set[int] = set()  # slots whose episode goes on, and counts no longer
        self._has_begun = False

    def reset_slots(self, slots: Collection[int]) -> dict[int, ts.TimeStep]:
        """Begins an episode in each of `slots`; those without a time step begin in a later step.

        An episode that has given NaN goes on, unseen, if only its own end resets it.

        Raises:
          ConfigError: If the environment cannot reset a slot before its own end of the episode.
        """
        if len(slots) == self.num_slots and not self._ended.keys() >= set(slots):
            return self._reset_all()
        assert self._has_begun, "all slots begin together"
        if self._mode == "Disabled":
            mask = np.isin(np.arange(self.num_slots), list(slots))
            observations, infos = self._vector.reset(options={"reset_mask": mask})
            return self._firsts(observations, infos, slots)
        early = sorted(set(slots) - self._ended.keys())
        self._abandoned.update(slot for slot in early if not is_finite(self._newest[slot]))
        if early := [slot for slot in early if slot not in self._abandoned]:
            raise ConfigError(
                f"The episode of environment {early[0]} of {self._owner} was cut, but this resets "
                "it only at its own end. Let max_episode_steps be at most the horizon, or make it "
                "with autoreset_mode=gymnasium.vector.AutoresetMode.DISABLED."
            )
        if self._mode == "NextStep":
            return {}
        ended = [slot for slot in slots if slot in self._ended]
        return {slot: self._first(self._ended.pop(slot)) for slot in ended}

    def step_slots(self, actions: Mapping[int, Any]) -> dict[int, ts.TimeStep]:
        """Takes an env step in the slots of `actions`; answers also of slots that begin."""
        from gymnasium.vector import utils

        every = [
            self._cast_action(actions.get(slot, self._idle_action))
            for slot in range(self.num_slots)
        ]
        space = self._vector.single_action_space
        batch = utils.concatenate(space, every, utils.create_empty_array(space, self.num_slots))
        observations, rewards, terminated, truncated, infos = self._results(
            self._vector.step(batch)
        )
        answers = {}
        for slot, observation in enumerate(self._apart(observations)):
            if self._mode == "NextStep" and slot in self._ended:
                del self._ended[slot]
                self._infos[slot] = _info_of(infos, slot)
                answers[slot] = self._first(observation)
            elif slot in actions:
                reward = rewards[slot]
                is_last = bool(terminated[slot] or truncated[slot])
                self._infos[slot] = info = _info_of(infos, slot)
                if not is_last:
                    answers[slot] = self._mid(observation, reward)
                    continue
                self._ended[slot] = observation
                if self._mode == "SameStep":
                    self._infos[slot] = info.get("final_info", {})
                    observation = self._final_observation(info, slot)
                answers[slot] = self._last(observation, reward, bool(terminated[slot]))
            elif slot in self._abandoned and (terminated[slot] or truncated[slot]):
                self._abandoned.remove(slot)
                if self._mode == "SameStep":
                    self._infos[slot] = _info_of(infos, slot)
                    answers[slot] = self._first(observation)
                else:
                    self._ended[slot] = observation
        self._newest |= answers
        return answers

    def _results(self, result: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Returns the results of the vector's `step`, each with an entry for each environment."""
        if not (isinstance(result, tuple) and len(result) == 5):
            raise wrong_step_error(
                self._owner, result, "(observations, rewards, terminations, truncations, infos)"
            )
        for name, part in zip(("rewards", "terminations", "truncations"), result[1:4], strict=True):
            if (shape := np.shape(part))[:1] != (self.num_slots,):
                raise ConfigError(
                    f"{self._owner}.step returned {name} of shape {list(shape)}; expected one "
                    f"for each of its {self.num_slots} environments."
                )
        return result

    def _final_observation(self, info: Mapping[str, Any], slot: int) -> Any:
        if "final_obs" not in info:
            raise ConfigError(
                f"{self._owner}.step ended the episode of environment {slot} without its last "
                "observation, which with AutoresetMode.SAME_STEP is infos['final_obs'], where "
                "infos['_final_obs'] is True (gymnasium before 1.1 called it final_observation)."
            )
        return info["final_obs"]

    def slot_info(self, slot: int) -> Any:
        """Returns the info of a slot's last step."""
        return self._infos.get(slot, {})

    def get_info(self) -> Any:
        """Returns the info of slot 0."""
        return self.slot_info(0)

    def _reset(self) -> ts.TimeStep:
        return self._reset_all()[0]

    def _step(self, action: Any) -> ts.TimeStep:
        answers = self.step_slots(dict.fromkeys(range(self.num_slots), action))
        if self._mode == "Disabled":
            if others := [slot for slot in self._ended if slot]:
                self.reset_slots(others)
        return answers[0]

    def _reset_all(self) -> dict[int, ts.TimeStep]:
        seed, self._reset_seed = self._reset_seed, None
        observations, infos = self._reset_results(self._vector.reset(seed=seed))
        self._has_begun = True
        self._abandoned.clear()
        return self._firsts(observations, infos, range(self.num_slots))

    def _firsts(
        self, observations: Any, infos: Any, slots: Collection[int]
    ) -> dict[int, ts.TimeStep]:
        every = list(self._apart(observations))
        for slot in slots:
            self._ended.pop(slot, None)
            self._infos[slot] = _info_of(infos, slot)
        return {slot: self._first(every[slot]) for slot in slots}

    def _apart(self, observations: Any) -> Sequence[Any]:
        from gymnasium.vector import utils

        apart = list(utils.iterate(self._vector.observation_space, observations))
        if len(apart) != self.num_slots:  # else the slots left out would be waited for
            raise ConfigError(
                f"{self._owner} returned {len(apart)} observations; expected one for each of its "
                f"{self.num_slots} environments."
            )
        return apart


class _Single:
    """A vector environment as a single one, for the spaces and the rest of an adapter."""

    def __init__(self, vector: Any):
        self.observation_space = vector.single_observation_space
        self.action_space = vector.single_action_space
        self.unwrapped = vector.unwrapped
        self.reset, self.step, self.close = vector.reset, vector.step, vector.close
        self.render_mode = getattr(vector, "render_mode", None)
        self._vector = vector

    def render(self) -> Any:
        """Returns the frame of slot 0."""
        frames = self._vector.render()
        return frames[0] if isinstance(frames, (tuple, list)) else frames


def _info_of(infos: Mapping[str, Any], slot: int) -> dict[str, Any]:
    """Returns a slot's part of the infos, in which `_key` says which slots have `key`."""
    info = {}
    for key, value in infos.items():
        if (has := infos.get(f"_{key}")) is not None and has[slot]:
            info[key] = _info_of(value, slot) if isinstance(value, Mapping) else value[slot]
    return info
