"""What every program makes of a user's params and environment: the agent, and the data's layout."""

import dataclasses
from typing import Any

import tensorflow as tf
from tf_agents.agents import tf_agent
from tf_agents.environments import py_environment

from tfagents_system.agents.construction import make_agent, stored_state_spec
from tfagents_system.core.params_loader import Run
from tfagents_system.core.run_spec import RunSpec
from tfagents_system.data.codec import Codec
from tfagents_system.data.item_description import item_columns
from tfagents_system.data.item_layout import ItemLayout
from tfagents_system.data.run_views import view_of_run
from tfagents_system.data.sample_reader import SampleReader, step_codec


@dataclasses.dataclass(frozen=True)
class Assembly:
    """An agent, and how the env steps that it learns from are stored and read."""

    agent: tf_agent.TFAgent
    train_step: tf.Variable  # int64 []
    layout: ItemLayout  # of the items in the replay buffer
    codec: Codec  # of one step
    reader: SampleReader  # of items

    @property
    def columns(self) -> list[tf.TensorSpec]:
        """Specs [rows, size] of the columns of an item."""
        return item_columns(self.layout, self.codec.columns)

    def view_of(self, run: Run, arithmetic: str | None = None) -> RunSpec:
        """Returns `run` as this program sees it; `arithmetic` is the learner's, None elsewhere."""
        specs = self.agent.time_step_spec.observation, self.agent.action_spec
        return view_of_run(run, *specs, self.codec, self.layout, arithmetic)


def assemble(params: Any, environment: py_environment.PyEnvironment) -> Assembly:
    """Returns what programs need of a TrainParams and one of its environments.

    Raises:
      ConfigError: If the hooks of `params` make something that cannot be trained.
    """
    agent, train_step = make_agent(params, environment)
    layout = ItemLayout.from_settings(params)
    specs = agent.time_step_spec.observation, agent.action_spec
    codec = step_codec(*specs, layout, stored_state_spec(agent, params))
    return Assembly(agent, train_step, layout, codec, SampleReader(codec, layout, params.discount))
