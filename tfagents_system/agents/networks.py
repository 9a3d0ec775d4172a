"""The networks of an agent by name, and functions that evaluate them for losses."""

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf
from tf_agents.networks import network

from tfagents_system.agents.batch import Batch, Steps, normalized, with_scaled_rewards
from tfagents_system.agents.own_networks import (
    check_actor,
    check_critic,
    check_separate,
    check_state_value,
    copy_of,
)
from tfagents_system.agents.reward_scale import RewardScale
from tfagents_system.core.leaves import only
from tfagents_system.core.nests import Nest
from tfagents_system.data.transition import Transition, is_valid
from tfagents_system.networks.action_heads import action_head
from tfagents_system.networks.heads import ActionHead
from tfagents_system.networks.normalizer import Normalizer

Pair = tuple[network.Network, network.Network]


class Networks(tf.Module):
    """An actor, critics, and their target networks, if any; see `make_networks`."""

    def __init__(
        self,
        actor: network.Network,
        critics: Sequence[network.Network],
        head: ActionHead,
        *,
        target_actor: network.Network | None = None,
        target_critics: Sequence[network.Network] = (),
        state_value: network.Network | None = None,
        target_state_value: network.Network | None = None,
        summarizer: network.Network | None = None,
        target_summarizer: network.Network | None = None,
        normalizer: Normalizer | None = None,
        actor_normalizer: Normalizer | None = None,
        reward_scale: RewardScale | None = None,
    ):
        """Takes networks whose variables exist.

        Args:
          actor: (observation, step_type, network_state) -> (distribution or action, state).
          critics: ((observation, action), step_type, network_state) -> (Q, state), each.
          head: Head for the environment's action.
          target_actor: See `pairs`, as for all target networks.
          target_critics: One for each critic, or none.
          state_value: (observation, step_type, network_state) -> (V, state).
          target_state_value: See `pairs`.
          summarizer: (observation, step_type, network_state) -> (features, state). All other
            networks take its features as observations.
          target_summarizer: Returns the features from which targets are computed; None:
            `summarizer` does.
          normalizer: Normalizes the observations for all networks.
          actor_normalizer: Normalizes the actor's observations when it acts, if these are not all.
          reward_scale: Scales the rewards for the critics.
        """
        super().__init__()
        self.actor = actor
        self.critics = list(critics)
        self.head = head
        self.target_actor = target_actor
        self.target_critics = list(target_critics)
        self.state_value = state_value
        self.target_state_value = target_state_value
        self.summarizer = summarizer
        self.target_summarizer = target_summarizer
        self.normalizer = normalizer
        self.actor_normalizer = actor_normalizer
        self.reward_scale = reward_scale

    @property
    def is_recurrent(self) -> bool:
        """Whether any network has a state, so that training is on sequences."""
        networks = [self.summarizer] if self.summarizer else [self.actor, *self.critics]
        return any(tf.nest.flatten(net.state_spec) for net in networks)

    def normalized(self, transition: Transition) -> tuple[Transition, list[Any]]:
        """Returns `transition` normalized for the networks, and the statistics used."""
        statistics: list[Any] = []
        if (acting := self.actor_normalizer) is not None:
            seen = only(transition.observation, acting.observation_spec)
            statistics.append(acting.merged(seen, is_valid(transition)))
        if self.normalizer is not None:
            transition, of_observations = normalized(transition, self.normalizer)
            statistics.append(of_observations)
        if self.reward_scale is not None:
            transition, of_returns = with_scaled_rewards(transition, self.reward_scale)
            statistics.append(of_returns)
        return transition, statistics

    def update_statistics(self, statistics: list[Any]) -> None:
        """Replaces the statistics with those that `normalized` returned."""
        holders = self.actor_normalizer, self.normalizer, self.reward_scale
        given = (holder for holder in holders if holder is not None)
        for holder, own in zip(given, statistics, strict=True):
            holder.update(own)

    def pairs(self) -> list[Pair]:
        """Returns (network, target network) for each network that has a target."""
        pairs = [
            (self.summarizer, self.target_summarizer),
            *zip(self.critics, self.target_critics, strict=False),
            (self.state_value, self.target_state_value),
            (self.actor, self.target_actor),
        ]
        return [pair for pair in pairs if pair[1] is not None]

    def copy_to_targets(self) -> None:
        """Copies each network's weights to its target network."""
        for variable, of_target in self._pairs_of_variables():
            of_target.assign(variable)

    def update_targets(self, tau: float) -> None:
        """Moves each target network towards its network, whose weight is `tau`, in (0, 1]."""
        for variable, of_target in self._pairs_of_variables():
            if variable.dtype.is_floating:
                of_target.assign_add(tau * (variable - of_target))
            else:  # such as a count
                of_target.assign(variable)

    def _pairs_of_variables(self) -> Iterator[tuple[tf.Variable, tf.Variable]]:
        for source, target in self.pairs():
            yield from zip(source.variables, target.variables, strict=True)


def make_networks(
    observation_spec: Nest,
    action_spec: Nest,
    actor: network.Network,
    critic: network.Network,
    *,
    num_critics: int = 2,
    has_target_actor: bool = False,
    has_target_critics: bool = True,
    num_quantiles: int | None = None,
    streams: Collection[str] = (),
    state_value: network.Network | None = None,
    summarizer: network.Network | None = None,
    normalizer: Normalizer | None = None,
    actor_normalizer: Normalizer | None = None,
    reward_scale: RewardScale | None = None,
) -> Networks:
    """Makes critics and target networks, and creates all variables but the actor's.

    Target networks start equal to their networks.

    Args:
      observation_spec: The environment's spec, without batch axis.
      action_spec: The environment's spec; see `action_head`.
      actor: See Networks; a policy has created its variables.
      critic: The first critic; the others are copies of its structure.
      num_critics: At least 1.
      has_target_actor: Whether targets use actions of a target actor.
      has_target_critics: Whether each critic has a target network.
      num_quantiles: See `check_critic`.
      streams: See `check_critic`.
      state_value: See Networks; it has a target network instead of the critics.
      summarizer: See Networks.
      normalizer: See Networks.
      actor_normalizer: See Networks.
      reward_scale: See Networks.

    Raises:
      ConfigError: If a user's network returns something that cannot be trained, or has no copies
        with variables of their own.
    """
    head, target_summarizer = action_head(action_spec), None
    if summarizer is not None:
        summarizer.create_variables(observation_spec)
        if has_target_critics or state_value is not None:
            target_summarizer = copy_of("summarizer_ctor", summarizer, "target_summarizer")
            target_summarizer.create_variables(observation_spec)
            check_separate("summarizer_ctor", summarizer, target_summarizer)
        observation_spec = summarizer.features_spec
    seen = only(observation_spec, actor.input_tensor_spec)
    check_actor(actor, seen, head, is_deterministic=has_target_actor)
    critics, target_critics = [critic], []
    for index in range(num_critics):
        if index:
            critics.append(copy_of("critic_ctor", critic, f"critic_{index}"))
        if has_target_critics and state_value is None:
            target_critics.append(copy_of("critic_ctor", critic, f"target_critic_{index}"))
    for net in critics + target_critics:
        found = net.create_variables((observation_spec, action_spec))
        check_critic(found, head, num_quantiles, streams)
    check_separate("critic_ctor", *critics, *target_critics)
    target_state_value = target_actor = None
    if state_value is not None:
        target_state_value = copy_of("state_value_ctor", state_value, "target_state_value")
        for net in (state_value, target_state_value):
            check_state_value(net.create_variables(observation_spec))
        check_separate("state_value_ctor", state_value, target_state_value)
    if has_target_actor:
        target_actor = copy_of("actor_ctor", actor, "target_actor")
        target_actor.create_variables(seen)
        check_separate("actor_ctor", actor, target_actor)
    networks = Networks(
        actor,
        critics,
        head,
        target_actor=target_actor,
        target_critics=target_critics,
        state_value=state_value,
        target_state_value=target_state_value,
        summarizer=summarizer,
        target_summarizer=target_summarizer,
        normalizer=normalizer,
        actor_normalizer=actor_normalizer,
        reward_scale=reward_scale,
    )
    networks.copy_to_targets()
    return networks


def act(actor: network.Network, steps: Steps, state: Sequence[tf.Tensor] = ()) -> Any:
    """Returns the actor's distribution or actions; sequences begin with `state`."""
    return actor(seen_by(actor, steps), step_type=steps.step_type, network_state=state)[0]


def seen_by(actor: network.Network, steps: Steps) -> Nest:
    """Returns the leaves of the observations that the actor sees: not those only for critics."""
    return only(steps.observation, actor.input_tensor_spec)


def act_of(networks: Networks, steps: Steps, state: Sequence[tf.Tensor] = ()) -> Any:
    """Returns the distribution of the actor of `networks` over the allowed actions."""
    return allowed(networks, act(networks.actor, steps, state), steps)


def allowed(networks: Networks, distribution: Any, steps: Steps) -> Any:
    """Returns an actor's distribution over the actions that are allowed in `steps`."""
    return (
        networks.head.masked(distribution, steps.mask) if tf.is_tensor(steps.mask) else distribution
    )


def reachable_share(networks: Networks, steps: Steps) -> Any:
    """Returns, for each part, the share of the target entropy that the masks of `steps` leave."""
    return networks.head.reachable_share(steps.mask) if tf.is_tensor(steps.mask) else 1.0


def values(critics: Sequence[network.Network], steps: Steps, actions: Nest) -> list[tf.Tensor]:
    """Returns each critic's values of `actions`, [B] or [B, T], or [..., M] quantiles.

    The values of several reward streams are [S, ...], sorted by the streams' names.
    """
    inputs = steps.observation, actions
    outputs = [critic(inputs, step_type=steps.step_type, network_state=())[0] for critic in critics]
    return [tf.stack(tf.nest.flatten(q)) if isinstance(q, Mapping) else q for q in outputs]


def values_of_drawn(
    critics: Sequence[network.Network], drawn: tf.Tensor, steps: Steps, actions: Nest
) -> list[tf.Tensor]:
    """Returns the values of the critics whose indices are `drawn` [n]; computes no others.

    See `values`. The indices are known only when the graph runs.
    """
    calls = [functools.partial(values, [critic], steps, actions) for critic in critics]
    return [tf.switch_case(index, calls)[0] for index in tf.unstack(drawn)]


def summarized(networks: Networks, batch: Batch) -> Batch:
    """Returns `batch` with the summarizer's features as observations, if there is one."""
    if networks.summarizer is None:
        return batch
    features = act(networks.summarizer, batch.steps, batch.state)
    of_targets = networks.target_summarizer or networks.summarizer  # CrossQ has no targets
    next_features = act(of_targets, batch.next_steps, batch.state)
    next_steps = batch.next_steps._replace(observation=next_features)
    if batch.has_first_step:
        next_steps = tf.nest.map_structure(lambda part: part[:, 1:], next_steps)
    return batch._replace(
        steps=batch.steps._replace(observation=features),
        next_steps=next_steps,
        state=(),
        has_first_step=False,
    )
