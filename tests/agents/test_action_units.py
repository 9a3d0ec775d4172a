"""What is learned does not depend on the unit of the action."""

import numpy as np
import pytest
import tensorflow as tf
from sac_fakes import BATCH, GAMMA, OBSERVATION, make_agent, numbers, transition, weights_of
from tf_agents.specs import tensor_spec

from tfagents_system.networks.actor_networks import MlpActorNetwork
from tfagents_system.networks.batch_renorm import RenormalizedLayers
from tfagents_system.networks.critic_networks import MlpCriticNetwork
from tfagents_system.networks.normalizing_networks import (
    NormalizingActorNetwork,
    NormalizingCriticNetwork,
)

LOW, HIGH = -0.01, 0.05  # center 0.02, magnitude 0.03


def agent_of(algorithm, low, high):
    tf.keras.utils.set_random_seed(1)
    spec = tensor_spec.BoundedTensorSpec([1], tf.float32, low, high, "action")
    specs = (OBSERVATION, spec)
    if algorithm == "crossq":
        actor = NormalizingActorNetwork(*specs, (4,), RenormalizedLayers)
        critic = NormalizingCriticNetwork(specs, (4,), RenormalizedLayers)
    else:
        actor = MlpActorNetwork(*specs, fc_layer_params=(4,), deterministic=algorithm == "td3")
        critic = MlpCriticNetwork(specs, (4,), num_quantiles=3 if algorithm == "tqc" else None)
    return make_agent(
        actor, critic, spec=spec, algorithm=algorithm, discount=GAMMA, policy_delay=1,
        tqc_quantiles=3, tqc_dropped_quantiles=1,
    )  # fmt: skip


@pytest.mark.parametrize("algorithm", ["sac", "tqc", "crossq", "td3"])
def test_train_steps_are_the_same_in_any_unit(algorithm):
    infos, weights = [], []
    for low, high in ((-1.0, 1.0), (LOW, HIGH)):
        agent = agent_of(algorithm, low, high)
        center, magnitude = (low + high) / 2, (high - low) / 2
        batch = BATCH | {"a": [center + magnitude * a for a in BATCH["a"]]}
        tf.keras.utils.set_random_seed(2)
        infos.append([numbers(agent.train(transition(**batch)).extra) for _ in range(5)])
        weights.append(weights_of([agent.networks.actor, *agent.networks.critics]))
    for one, other in zip(*infos, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)
    for one, other in zip(*weights, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)
