"""Builds the reward streams of a run."""

from collections.abc import Collection

import tensorflow as tf
from tf_agents.agents import tf_agent

from tfagents_system.agents.agent import ActorCriticAgent
from tfagents_system.core.action_masks import input_spec
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.leaves import only
from tfagents_system.core.nests import Nest
from tfagents_system.core.settings.minibatches import num_replay_samples
from tfagents_system.core.settings.params import Params
from tfagents_system.core.settings.reward_signals import (
    EXTRINSIC,
    CuriositySettings,
    GailSettings,
    RndSettings,
    StreamSettings,
    streams_of,
)
from tfagents_system.rewards.curiosity import Curiosity
from tfagents_system.rewards.encoder import SignalEncoder
from tfagents_system.rewards.gail import Gail
from tfagents_system.rewards.rnd import Rnd
from tfagents_system.rewards.signals import RewardSignal, RewardSignals
from tfagents_system.rewards.streams import EnvironmentSignal, RewardStreams


def make_streams(
    params: Params, agent: tf_agent.TFAgent, added: RewardSignals | None
) -> RewardStreams:
    """Returns the streams of `reward_signals`, for an agent whose critics estimate their values.

    Args:
      params: A TrainParams with `reward_signals`.
      agent: The agent of `params`.
      added: Signals whose rewards are added to the environment's.

    Raises:
      ConfigError: If the agent is not built in, or the signals of `added` have no stream.
    """
    if not isinstance(agent, ActorCriticAgent):
        raise ConfigError(
            f"TrainParams.agent_ctor returned a {type(agent).__name__}, and there are "
            "reward_signals; expected reward_signals = None: only the built-in SAC has "
            "values of several rewards."
        )
    streams = streams_of(params)
    if added is not None:
        _check_added(added, streams)
    spec = input_spec(agent.time_step_spec.observation, tf.nest.flatten(agent.action_spec))
    normalizer = agent.networks.normalizer

    def inputs_of(observation: Nest) -> Nest:
        observation = only(observation, spec)
        return observation if normalizer is None else normalizer(observation)

    def make_encoder(units: int, name: str, num_layers: int = 2) -> SignalEncoder:
        how = params.image_encoder, params.preprocessing_combiner
        return SignalEncoder(spec, units, *how, name, num_layers)

    def make_signal(settings: StreamSettings) -> RewardSignal:
        if isinstance(settings, CuriositySettings):
            encoder = make_encoder(settings.encoding_size, "curiosity")
            return Curiosity(settings, encoder, agent.networks.head)
        if isinstance(settings, RndSettings):
            predictor = make_encoder(settings.encoding_size, "rnd_predictor")
            return Rnd(settings, predictor, make_encoder(settings.encoding_size, "rnd_target"))
        if isinstance(settings, GailSettings):
            encoder = make_encoder(settings.encoding_size, "gail_encoder", num_layers=0)
            return Gail(settings, encoder, agent.networks.head, num_replay_samples(params))
        return EnvironmentSignal(settings.strength)

    signals = [make_signal(settings) for settings in streams.values()]
    return RewardStreams(list(streams.values()), signals, inputs_of, added, params.time_aware)


def _check_added(added: RewardSignals, streams: Collection[str]) -> None:
    found = f"TrainParams.reward_signals_ctor returned {', '.join(added.names)}"
    if EXTRINSIC not in streams:
        raise ConfigError(
            f"{found}, and reward_signals has {', '.join(streams)}; their rewards are added to the "
            f'environment\'s, so reward_signals must have "{EXTRINSIC}": {{}} then.'
        )
    if common := sorted(set(added.names) & set(streams)):
        raise ConfigError(
            f"{found}, and reward_signals has {', '.join(common)}, too; expected names that differ."
        )
