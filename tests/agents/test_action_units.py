"""What is learned does not depend on the unit of the action."""

import numpy as np
import pytest
import tensorflow as tf
from sac_fakes import BATCH, GAMMA, OBSERVATION, experience, weights_of
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.agents.crossq_agent import CrossQAgent
from tfagents_system.agents.sac_agent import SacAgent
from tfagents_system.agents.td3_agent import Td3Agent
from tfagents_system.agents.tqc_agent import TqcAgent
from tfagents_system.networks.actor_networks import MlpActorNetwork
from tfagents_system.networks.batch_renorm import BatchRenormActorNetwork, BatchRenormCriticNetwork
from tfagents_system.networks.critic_networks import MlpCriticNetwork

LOW, HIGH = -0.01, 0.05  # center 0.02, magnitude 0.03


def agent_of(kind, low, high):
    tf.keras.utils.set_random_seed(1)
    spec = tensor_spec.BoundedTensorSpec([1], tf.float32, low, high, "action")
    specs = (OBSERVATION, spec)
    if kind is CrossQAgent:
        actor = BatchRenormActorNetwork(*specs, fc_layer_params=(4,))
        critic = BatchRenormCriticNetwork(specs, (4,))
    else:
        actor = MlpActorNetwork(*specs, fc_layer_params=(4,), deterministic=kind is Td3Agent)
        critic = MlpCriticNetwork(specs, (4,), num_quantiles=3 if kind is TqcAgent else None)
    return kind(
        ts.time_step_spec(OBSERVATION), spec, actor, critic, gamma=GAMMA,
        train_step_counter=tf.Variable(0, dtype=tf.int64),
        **({"num_dropped_quantiles": 1} if kind is TqcAgent else {}),
    )  # fmt: skip


@pytest.mark.parametrize("kind", [SacAgent, TqcAgent, CrossQAgent, Td3Agent])
def test_train_steps_are_the_same_in_any_unit(kind):
    infos, weights = [], []
    for low, high in ((-1.0, 1.0), (LOW, HIGH)):
        agent = agent_of(kind, low, high)
        center, magnitude = (low + high) / 2, (high - low) / 2
        batch = BATCH | {"a": [center + magnitude * a for a in BATCH["a"]]}
        tf.keras.utils.set_random_seed(2)
        infos.append([agent.train(experience(**batch)).extra for _ in range(5)])
        weights.append(weights_of([agent.actor, *agent.critics]))
    for one, other in zip(*infos, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)
    for one, other in zip(*weights, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)
