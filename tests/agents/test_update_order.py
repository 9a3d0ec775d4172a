"""In the graph as TensorFlow runs it, a train step reads each variable before or after its update.

TensorFlow's optimizer of graphs leaves out orders that follow from others, and then may remove the
ops that those others went through.
"""

import numpy as np
import pytest
import tensorflow as tf
from sac_fakes import BATCH, OBSERVATION, action_spec, transition
from tensorflow.python.eager import context
from tf_agents.trajectories import time_step as ts

from tfagents_system.train_params_base import TrainParamsBase

SEQUENCES = {name: [steps, steps] for name, steps in BATCH.items()}
WRITES = "AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp", "ResourceApplyAdam"


class Params(TrainParamsBase):
    actor_fc_layer_params = critic_joint_fc_layer_params = (8,)

    def env_ctor(self, *args, seed=None, **kwargs):
        raise AssertionError("not needed here")


def optimized_train_step(**settings):
    """Returns the nodes of one train step, by name, after TensorFlow's optimizations."""
    params = Params({"horizon": 50})
    for name, value in settings.items():
        setattr(params, name, value)
    params.check("params.py")
    agent = params.agent_ctor(
        tf.Variable(0, dtype=tf.int64), OBSERVATION, action_spec(), ts.time_step_spec(OBSERVATION)
    )
    train = tf.function(agent.train, autograph=False)
    context.enable_run_metadata()
    try:
        batch = transition(**SEQUENCES if params.recurrent else BATCH)
        batch = batch._replace(return_so_far=batch.reward)  # of any size
        assert np.isfinite(train(batch).loss)
        graphs = [f.post_optimization_graph for f in context.export_run_metadata().function_graphs]
    finally:
        context.disable_run_metadata()
    return {node.name: node for node in max(graphs, key=lambda graph: len(graph.node)).node}


def ancestors(nodes, name):
    found, left = set(), [name]
    while left:
        for value in nodes[left.pop()].input:
            source = value.removeprefix("^").split(":")[0]
            if source not in found:
                found.add(source)
                left.append(source)
    return found


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"state_value_network": True},
        {"critic_layer_norm": True},
        {"critic_ensemble": 4},
        {"algorithm": "tqc"},
        {"algorithm": "crossq"},
        {"algorithm": "xqc"},
        {"algorithm": "td3"},
        {"algorithm": "ddpg"},
        {"normalize_observations": True},
        {"recurrent": True},
        {"recurrent": True, "share_summarizer": True},
    ],
    ids=str,
)
def test_reads_and_writes_of_a_variable_are_ordered(settings):
    nodes = optimized_train_step(**settings)
    writes = [node for node in nodes.values() if node.op in WRITES]
    reads = [node for node in nodes.values() if node.op == "ReadVariableOp"]
    before = {node.name: ancestors(nodes, node.name) for node in writes + reads}
    pairs = [(w.name, r.name) for w in writes for r in reads if w.input[0] == r.input[0]]
    assert pairs
    unordered = [
        (write, read)
        for write, read in pairs
        if read not in before[write] and write not in before[read]
    ]
    assert unordered == []
