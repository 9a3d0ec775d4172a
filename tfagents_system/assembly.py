"""Builds the agent and the data layout from a user's params and environment."""

import dataclasses

import tensorflow as tf
import tree
from tf_agents.agents import tf_agent
from tf_agents.environments import py_environment

from tfagents_system.agents.agent import ActorCriticAgent
from tfagents_system.agents.construction import (
    arithmetic_of,
    make_agent,
    masks_padding,
    scales_rewards,
    stored_state_spec,
)
from tfagents_system.agents.privileged_critics import (
    check_critic_observations,
    check_has_privileged_critics,
)
from tfagents_system.core.action_masks import input_spec
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.nests import Nest
from tfagents_system.core.programs.params_loader import Run
from tfagents_system.core.settings.hooks import call_method
from tfagents_system.core.settings.params import Params
from tfagents_system.core.state.run_spec import RunSpec
from tfagents_system.data.codec import Codec
from tfagents_system.data.item_description import item_columns
from tfagents_system.data.item_layout import ItemLayout
from tfagents_system.data.run_views import view_of_run
from tfagents_system.data.sample_reader import SampleReader, step_codec
from tfagents_system.environments.closing import close_environment
from tfagents_system.environments.construction import make_collect_environment
from tfagents_system.environments.goals import check_has_goals
from tfagents_system.rewards.construction import make_streams
from tfagents_system.rewards.signals import RewardSignals
from tfagents_system.rewards.streams import RewardStreams


@dataclasses.dataclass(frozen=True)
class Assembly:
    """An agent, and the storage format of the env steps that it trains on."""

    agent: tf_agent.TFAgent
    train_step: tf.Variable  # int64 []
    layout: ItemLayout  # of the items in the replay buffer
    codec: Codec  # of one step
    reader: SampleReader  # of items
    reward_signals: RewardSignals | RewardStreams | None  # None: only the environment's rewards

    @property
    def columns(self) -> list[tf.TensorSpec]:
        """The specs [rows, size] of an item's columns."""
        return item_columns(self.layout, self.codec.columns)

    @property
    def row_bytes(self) -> int:
        """The size of an env step in the replay buffer, in bytes."""
        return sum(c.shape.num_elements() * c.dtype.size for c in self.codec.columns)

    @property
    def arithmetic(self) -> str:
        """The arithmetic of a learner's matrix products on this host; see kernels/arithmetic.py."""
        return arithmetic_of(self.agent)

    @property
    def streams(self) -> RewardStreams | None:
        """The streams of `reward_signals`; None without that setting."""
        return self.reward_signals if isinstance(self.reward_signals, RewardStreams) else None

    @property
    def signal_names(self) -> list[str]:
        """Names of the reward signals."""
        return self.reward_signals.names if self.reward_signals else []

    def view_of(
        self, run: Run, arithmetic: str | None = None, demonstrations: str | None = None
    ) -> RunSpec:
        """Returns this program's view of `run`; only the learner passes the last two arguments."""
        specs = self.agent.time_step_spec.observation, self.agent.action_spec
        return view_of_run(run, *specs, self.codec, self.layout, arithmetic, demonstrations)


def assemble(params: Params, environment: py_environment.PyEnvironment) -> Assembly:
    """Returns the assembly for a TrainParams and one of its environments.

    Raises:
      ConfigError: If the hooks of `params` return something that cannot be trained.
    """
    if params.her_copies:
        check_has_goals(environment, params.her_copies)
    actions = tree.flatten(environment.action_spec())
    seen = input_spec(environment.observation_spec(), actions)
    check_critic_observations(params.critic_observations, seen)
    agent, train_step = make_agent(params, environment)
    check_has_privileged_critics(params.critic_observations, agent)
    if params.behavioral_cloning and not isinstance(agent, ActorCriticAgent):
        raise ConfigError(
            f"TrainParams.agent_ctor returned a {type(agent).__name__}, and there is "
            "behavioral_cloning; expected behavioral_cloning = None: only built-in agents have it."
        )
    layout = ItemLayout.from_settings(params)
    if layout.is_sequence and not masks_padding(agent):
        layout = dataclasses.replace(layout, pads_episodes=False)
    specs = agent.time_step_spec.observation, agent.action_spec
    state_spec = stored_state_spec(agent, params)
    codec = step_codec(*specs, layout, state_spec, stores_return=scales_rewards(agent))
    reader = SampleReader(codec, layout, params.discount)
    signals = _reward_signals(params, agent)
    return Assembly(agent, train_step, layout, codec, reader, signals)


def assemble_apart(params: Params, seed: int) -> Assembly:
    """Returns the assembly for a temporary environment, made with `seed` and closed.

    Raises:
      ConfigError: If the hooks of `params` return something that cannot be trained.
    """
    environment = make_collect_environment(params, seed)
    try:
        return assemble(params, environment)
    finally:
        close_environment(environment)


def _reward_signals(
    params: Params, agent: tf_agent.TFAgent
) -> RewardSignals | RewardStreams | None:
    own = _own_signals(params, agent.time_step_spec.observation, agent.action_spec)
    if own is not None and isinstance(agent, ActorCriticAgent) and agent.networks.reward_scale:
        raise ConfigError(
            "Rewards are normalized (normalize_rewards, XQC's default), and TrainParams."
            "reward_signals_ctor has signals; expected normalize_rewards = False: the "
            "spread of the environment's returns says nothing of the signals' rewards."
        )
    return make_streams(params, agent, own) if params.reward_signals else own


def _own_signals(params: Params, observation_spec: Nest, action_spec: Nest) -> RewardSignals | None:
    signals = call_method(params.reward_signals_ctor, observation_spec, action_spec)
    if not isinstance(signals, (list, tuple)):
        raise ConfigError(
            f"TrainParams.reward_signals_ctor returned {signals!r}; expected a list of signals."
        )
    if not signals:
        return None
    if params.n_step_returns > 1:
        raise ConfigError(
            f"n_step_returns is {params.n_step_returns}, and TrainParams.reward_signals_ctor has "
            "signals; expected n_step_returns = 1: a signal judges single env steps, whose "
            "rewards are summed up before."
        )
    return RewardSignals(signals)
