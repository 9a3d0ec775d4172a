"""A sixth algorithm costs its own three files and a row in the table, and is everywhere then."""

import pathlib
import shutil
import subprocess
import sys

PACKAGE = pathlib.Path(__file__).parents[2] / "tfagents_system"
OWN_FILES = {
    "__init__.py": '"""SAC whose critics have an L1 loss."""\n',
    "settings.py": """
import dataclasses

from tfagents_system.agents.algorithm import Algorithm
from tfagents_system.agents.sac.settings import EntropySettings
from tfagents_system.core.hyperparameters import positive


@dataclasses.dataclass(eq=False, repr=False)
class AbsacSettings:
    absac_scale: float = positive(1.0, "weight of the critics' loss")


ABSAC = Algorithm("absac", "Absolute SAC", (EntropySettings, AbsacSettings), policy_delay=2)
""",
    "losses.py": """
import tensorflow as tf

from tfagents_system.agents.losses import CriticLoss, valid_mean
from tfagents_system.agents.networks import values
from tfagents_system.agents.sac.losses import td_target


def critic_loss(networks, batch, alpha, gamma, scale):
    target = tf.stop_gradient(td_target(networks, batch, alpha, gamma))
    q_values = values(networks.critics, batch.steps, batch.action)
    loss = scale * tf.add_n([valid_mean(tf.abs(q - target), batch.valid) for q in q_values])
    return CriticLoss(loss, q_values[0], target)
""",
    "algorithm.py": """
from functools import partial

from tfagents_system.agents.absac import losses
from tfagents_system.agents.losses import Losses
from tfagents_system.agents.sac import losses as sac_losses
from tfagents_system.agents.sac.algorithm import make_actor, make_critic, make_soft_agent


def make_agent(settings, parts):
    critic = partial(losses.critic_loss, gamma=settings.discount, scale=settings.absac_scale)
    return make_soft_agent(settings, parts, Losses(sac_losses.actor_loss, critic))
""",
}
USE = """
import sys
import numpy as np
import tensorflow as tf
from tf_agents.specs import tensor_spec
from tf_agents.trajectories import time_step as ts
from tfagents_system.commands.train import train
from tfagents_system.core.command_line import with_arguments
from tfagents_system.data.transition import Transition
from tfagents_system.launch.params_check import PUBLISHED
from tfagents_system.train_params_base import TrainParamsBase

class TrainParams(TrainParamsBase):
    algorithm = "absac"
    absac_scale = 2.0
    tqc_quantiles = 7

    def env_ctor(self, *args, seed=None, **kwargs):
        raise AssertionError("not needed here")

params = TrainParams({"horizon": 10})
print(params.check("params.py"))
print("Absolute SAC" in PUBLISHED["algorithm"].meaning)
print("2 for absac" in PUBLISHED["policy_delay"].meaning)
observation = tf.TensorSpec([3], tf.float32)
action = tensor_spec.BoundedTensorSpec([2], tf.float32, -1, 1)
train_step = tf.Variable(0, dtype=tf.int64)
agent = params.agent_ctor(train_step, observation, action, ts.time_step_spec(observation))
one = tf.ones([4])
batch = Transition(one, tf.ones([4, 3]), tf.zeros([4, 2]), one, 0 * one, tf.ones([4, 3]))
loss, info = agent.train(batch)
print(agent.algorithm, agent.rule.policy_delay, float(info["td_target"]))
with_arguments(train, ["sac train", "--env", "Pendulum-v1", "--algo", "absac"])
"""


def test_a_sixth_algorithm_costs_three_files_and_a_row(tmp_path):
    package = tmp_path / PACKAGE.name
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    own = package / "agents" / "absac"
    own.mkdir()
    for name, text in OWN_FILES.items():
        (own / name).write_text(text)
    table = package / "agents/table.py"
    text = table.read_text()
    imports, row, base = "import DDPG\n", "TD3, DDPG)", "class OwnSettings(\n    "
    assert all(text.count(place) == 1 for place in (imports, row, base))
    text = text.replace(
        imports,
        f"{imports}from tfagents_system.agents.absac.settings import ABSAC, AbsacSettings\n",
    )
    table.write_text(text.replace(row, "TD3, DDPG, ABSAC)").replace(base, f"{base}AbsacSettings, "))

    done = subprocess.run(
        [sys.executable, "-c", USE], cwd=tmp_path, env={"PATH": "", "PYTHONPATH": str(tmp_path)},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip

    unused = "params.py: tqc_quantiles is 7, which has no effect: algorithm is 'absac'."
    expected = [f'["{unused}"]', "True", "True", "absac 2 1.0"]
    assert done.stdout.splitlines() == expected, done.stderr
