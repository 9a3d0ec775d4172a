"""The class that a user extends to describe a training task."""

import abc
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from tf_agents.agents import tf_agent
from tf_agents.environments import py_environment
from tf_agents.networks import network
from tf_agents.trajectories import time_step as ts
from tf_agents.trajectories import trajectory

from tfagents_system.agents.agent_settings import (
    AgentParams,
    check_together,
    normalizes_rewards,
    unused_settings,
)
from tfagents_system.agents.building import (
    Parts,
    check_actions,
    make_normalizers,
)
from tfagents_system.agents.goal_conditioning import check_goal_conditioning
from tfagents_system.agents.idle_settings import idle_settings
from tfagents_system.agents.own_networks import own_network
from tfagents_system.agents.reward_scale import RewardScale
from tfagents_system.agents.table import ALGORITHMS
from tfagents_system.core.action_masks import input_spec
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.leaves import without
from tfagents_system.core.nests import Nest
from tfagents_system.core.settings.attribute_names import check_attribute_name
from tfagents_system.core.settings.hooks import check_hooks
from tfagents_system.core.settings.hyperparameters import check_hyperparameter, hyperparameters
from tfagents_system.networks.critic_networks import MlpValueNetwork
from tfagents_system.networks.observation_encoders import VisualSummarizer, has_images
from tfagents_system.networks.summarizers import RecurrentSummarizer
from tfagents_system.rewards.signals import RewardSignal


class TrainParamsBase(AgentParams, abc.ABC):
    """Environment, networks, agent and hyperparameters of one task.

    A params file defines `class TrainParams(TrainParamsBase)` with at least `env_ctor`.
    Hyperparameters (declared in TrainingSettings and AgentSettings) are set as class attributes, or
    in `__init__` after `super().__init__(env_config)`; gin bindings such as
    `TrainParams.train_batch_size = 512` override both.
    """

    @abc.abstractmethod
    def env_ctor(
        self, *args: Any, seed: int | None = None, **kwargs: Any
    ) -> py_environment.PyEnvironment:
        """Returns a new environment; a gym or gymnasium one gets its adapter, and the seed.

        Every program calls it with the arguments of `collect_env_args_kwargs` or
        `eval_env_args_kwargs` and with its own seed; `run.py` passes its flag `--seed`. A time
        limit must end an episode with discount 1, and only a true termination with discount 0; the
        adapters in `environments` do this, and TF-Agents' suites are corrected. In any case,
        episodes are cut after `env_config["horizon"]` steps.
        """

    def collect_env_args_kwargs(self, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns (args, kwargs) for `env_ctor` of a worker's collect environment.

        An override may have a parameter `id`, the worker's number from 0; the learner, which only
        needs the specs, passes 0.
        """
        return (), {}

    def eval_env_args_kwargs(self, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns (args, kwargs) for `env_ctor` of an evaluation environment.

        In a worker, an override may have the parameters `id` (from 0) and `collect_env`, the
        worker's collect environment, as `env_ctor` returned it. `run.py` passes neither; parameters
        without a default get id=0 and collect_env=None.
        """
        return (), {}

    def actor_ctor(self, obs_spec: Nest, action_spec: Nest) -> network.Network:
        """Returns the policy network: observation -> (distribution over actions, state).

        It must stay within the bounds of the actions. For integers it returns a TF-Agents
        Categorical, or the Categoricals of `action_head(action_spec).categoricals(logits)`.

        For TD3 and DDPG: observation -> (action, state). With `share_summarizer` or images,
        `obs_spec` is the spec of the summarizer's features, a dict with goals if there are any, as
        for `critic_ctor`. It has no mask of actions, and the leaves in `critic_observations` are
        only in that of `critic_ctor`.
        """
        make_actor = ALGORITHMS[self.algorithm].implementation().make_actor
        return make_actor(self, self._own_summarizer(obs_spec), obs_spec, action_spec)

    def critic_ctor(self, obs_spec: Nest, action_spec: Nest) -> network.Network:
        """Returns one critic network: (observation, action) -> (Q [B], state).

        For TQC: -> (`tqc_quantiles` quantiles [B, n], state). For CrossQ and XQC, a
        NormalizingCriticNetwork. With `reward_signals`: -> (a dict of Q of each signal, state). If
        the action has integers, Q is [B, N], of all integers of all choices, one choice after the
        other; as inputs, integers do not matter.
        """
        make_critic = ALGORITHMS[self.algorithm].implementation().make_critic
        return make_critic(self, self._own_summarizer(obs_spec), obs_spec, action_spec)

    def summarizer_ctor(self, obs_spec: Nest) -> network.Network:
        """Returns the first part of recurrent or visual networks: observation -> (features, state).

        Its attribute `features_spec` is the spec of the features, without batch axis.
        """
        if self._is_visual(obs_spec) and not self.recurrent:
            return VisualSummarizer(obs_spec, self.image_encoder)
        return RecurrentSummarizer(
            obs_spec,
            rnn_type=self.rnn_type,
            units=self.rnn_units,
            num_layers=self.rnn_layers,
            preprocessing_combiner=self.preprocessing_combiner,
            image_encoder=self.image_encoder,
            burn_in_len=self.burn_in_len,
        )

    def _is_visual(self, obs_spec: Nest) -> bool:
        return self.preprocessing_combiner is None and has_images(obs_spec)

    def _own_summarizer(self, obs_spec: Nest) -> network.Network | None:
        """Returns the summarizer of one network; None if it needs none or shares one."""
        has_own = self.recurrent and not self.share_summarizer
        return self._checked_summarizer(obs_spec) if has_own else None

    def _checked_summarizer(self, obs_spec: Nest) -> network.Network:
        return own_network("summarizer_ctor", self.summarizer_ctor(obs_spec), self)

    def state_value_ctor(self, obs_spec: Nest) -> network.Network:
        """Returns the network of `state_value_network`: observation -> (V [B], state)."""
        return MlpValueNetwork(
            obs_spec,
            fc_layer_params=tuple(self.critic_joint_fc_layer_params),
            preprocessing_combiner=self.preprocessing_combiner,
            image_encoder=self.image_encoder,
        )

    def agent_ctor(
        self,
        train_step: tf.Variable,
        obs_spec: Nest,
        action_spec: Nest,
        time_step_spec: ts.TimeStep,
    ) -> tf_agent.TFAgent:
        """Returns the agent; an override may return any TF-Agents agent trained on transitions.

        Its `train` receives a `trajectory.Transition` with leaves [B, ...], or [B, T, ...] if
        `recurrent`, and must increment `train_step`. Episodes shorter than a sequence are left out,
        unless the agent has an attribute `masks_padding` = True, as built-in ones do: then they are
        padded, and the agent must ignore transitions whose `time_step.step_type` is LAST. With
        `n_step_returns`, set `discount` to the agent's gamma: rewards are summed with it.
        """
        check_actions(self, action_spec)
        check_goal_conditioning(self, obs_spec)
        obs_spec = input_spec(obs_spec, tf.nest.flatten(action_spec))
        actor_spec = without(obs_spec, self.critic_observations)
        normalizer, actor_normalizer = make_normalizers(self, obs_spec, actor_spec)
        summarizer = None
        shares_images = not self.recurrent and not self.critic_observations
        if self.share_summarizer or (shares_images and self._is_visual(obs_spec)):
            summarizer = self._checked_summarizer(obs_spec)
            obs_spec = actor_spec = summarizer.features_spec
        parts = Parts(
            train_step,
            time_step_spec,
            obs_spec,
            action_spec,
            own_network("actor_ctor", self.actor_ctor(actor_spec, action_spec), self),
            own_network("critic_ctor", self.critic_ctor(obs_spec, action_spec), self),
            summarizer,
            normalizer,
            RewardScale() if normalizes_rewards(self) else None,
            self.critic_observations,
            actor_normalizer,
        )
        return ALGORITHMS[self.algorithm].implementation().make_agent(self, parts)

    def reward_signals_ctor(self, obs_spec: Nest, action_spec: Nest) -> list[RewardSignal]:
        """Returns signals that are trained along with the agent and add to its reward.

        The default is none. A signal is a tf.Module, and a RewardSignal of `rewards/signals.py`.
        In each train step, its reward, times its strength, is added to the environment's; the
        replay buffer keeps the environment's. Needs `n_step_returns` = 1. The signals of the
        setting `reward_signals` have values of their own instead.
        """
        return []

    def train_observers_ctor(self, **kwargs: Any) -> list[Callable[[trajectory.Trajectory], Any]]:
        """Returns observers, called in a worker with each env step of collection.

        They get the Trajectory of a TF-Agents driver, without batch axis, but no boundary steps
        from the end of an episode to the reset. An episode that is cut at the horizon ends with
        next_step_type LAST. An override may have a parameter `id`, the worker's number from 0. An
        observer that raises ends the worker.
        """
        return []

    def eval_observers_ctor(self, **kwargs: Any) -> list[Callable[[trajectory.Trajectory], Any]]:
        """Returns observers, called in a worker with each env step of an evaluation; as above."""
        return []

    def sample_parameter(
        self, name: str, settings: dict[str, Any], generator: np.random.Generator
    ) -> float:
        """Returns a value of the curriculum's parameter `name` for one episode of collection.

        Called for `"sampler": "custom"` in the JSON config; `settings` are the other keys of that
        entry. Each start of a program calls it once for each such entry, as a check. Draw from
        `generator` only, so that seeds repeat.
        """
        raise ConfigError(
            f"The curriculum's parameter {name} has a custom sampler: define "
            "sample_parameter(self, name, settings, generator) in TrainParams."
        )

    def callbacks(self, **kwargs: Any) -> list[Any]:
        """Returns callbacks: objects that each have some of these methods.

        `on_start`, `on_episode` (workers), `on_iteration` (learner), `on_evaluation`,
        `on_checkpoint` (learner) and `on_end` get one event; core/programs/callbacks.py has their
        fields. The learner, every worker and every evaluator make their own objects, and wait while
        these are called. A callback that raises is reported, and training goes on;
        `event.stop_training(reason)` ends it in the regular way. An override may have a parameter
        `program`: learner, worker_<k> or evaluator_<k>.
        """
        return []

    def hyperparameters(self) -> dict[str, Any]:
        """Returns every hyperparameter by name."""
        return {name: getattr(self, name) for name in hyperparameters(TrainParamsBase)}

    def check(self, where: str) -> list[str]:
        """Returns notes about attributes that may be misspelt published ones, or have no effect.

        Args:
          where: The params file, for the messages.

        Raises:
          ConfigError: For a misspelt attribute, a value that is not allowed, or a hook that cannot
            be called.
        """
        declared = hyperparameters(TrainParamsBase)
        own_classes: list[type] = [c for c in type(self).__mro__ if issubclass(c, TrainParamsBase)]
        attributes = dict(vars(self))
        for cls in own_classes[: own_classes.index(TrainParamsBase)]:
            attributes = dict(vars(cls)) | attributes
        notes = [
            check_attribute_name(name, declared, where, is_method=inspect.isroutine(value))
            for name, value in attributes.items()
        ]
        for name, value in self.hyperparameters().items():
            check_hyperparameter(declared, name, value, where)
        check_together(self, self.env_config["horizon"], where)
        has_own_agent = type(self).agent_ctor is not TrainParamsBase.agent_ctor
        check_hooks(self, has_own_agent, where)
        if not has_own_agent:
            idle = dict.fromkeys(unused_settings(self), f"algorithm is {self.algorithm!r}")
            notes += [
                f"{where}: {name} is {getattr(self, name)!r}, which has no effect: {reason}."
                for name, reason in (idle | idle_settings(self)).items()
            ]
        return [note for note in notes if note]
