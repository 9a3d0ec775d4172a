"""A replay server inside the test, an environment that says where it is, a small agent."""

import contextlib
import dataclasses
import itertools
import multiprocessing
import pathlib
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import reverb
import tensorflow as tf
import tree
from tf_agents.environments import py_environment
from tf_agents.specs import array_spec, tensor_spec
from tf_agents.trajectories import time_step as ts

from tfagents_system.agents.construction import make_agent
from tfagents_system.core.process.ports import free_port
from tfagents_system.core.programs.params_loader import load_run
from tfagents_system.core.state.files import write_json_atomically
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.state.running import begin_run
from tfagents_system.data.codec import Codec
from tfagents_system.data.item_layout import SINGLE, ItemLayout
from tfagents_system.data.run_views import view_of_run
from tfagents_system.data.sample_reader import SampleReader, step_codec
from tfagents_system.data.transition import Transition
from tfagents_system.services.replay import EXPERIENCE_TABLE, start_server
from tfagents_system.services.replay_limits import ReplayLimits
from tfagents_system.train_params_base import TrainParamsBase

# Neither side ever waits for the other.
UNLIMITED = ReplayLimits(capacity=10_000, min_size=1, samples_per_insert=1.0, error_buffer=1e9)
ONE_ACTION = array_spec.BoundedArraySpec([1], np.float32, -1.0, 1.0)


@dataclasses.dataclass
class Serving:
    """A running server and how to reach it."""

    server: reverb.Server
    port: int

    @property
    def address(self) -> str:
        return f"localhost:{self.port}"

    def client(self) -> reverb.Client:
        return reverb.Client(self.address)


@contextlib.contextmanager
def serving(
    root: pathlib.Path,
    limits: ReplayLimits = UNLIMITED,
    restore_from: pathlib.Path | None = None,
    port: int | None = None,
    is_deterministic: bool = False,
    columns: Sequence[tf.TensorSpec] | None = None,
) -> Iterator[Serving]:
    """Serves until the end of the block; `root` becomes Reverb's own checkpoint folder."""
    root.mkdir(parents=True, exist_ok=True)
    port = port or free_port()
    server = start_server(
        limits, port, root, restore_from, is_deterministic, columns, TinyParams.n_eval_episodes
    )
    try:
        yield Serving(server, port)
    finally:
        server.stop()


@contextlib.contextmanager
def serving_until_killed(root: pathlib.Path, port: int) -> Iterator[None]:
    """Serves in a process of its own, as in a run, until the end of the block kills it.

    Within one process Reverb's clients pass the network by, and some of them hang for ever when
    the server goes.
    """
    spawn = multiprocessing.get_context("spawn")
    process = spawn.Process(target=_serve_and_wait, args=(root, port))
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def _serve_and_wait(root: pathlib.Path, port: int) -> None:
    with serving(root, port=port):
        signal.pause()


def all_items(
    client: reverb.Client,
    codec: Codec,
    layout: ItemLayout = SINGLE,
    key: Callable[[Transition], np.ndarray] = lambda transition: transition.observation,
) -> list[Transition]:
    """The transitions of every item of the experience table, oldest first.

    Samples until each has been seen. Leaves have a leading axis in blocks and sequences.
    """
    reader = SampleReader(codec, layout)
    size = client.server_info(timeout=5)[EXPERIENCE_TABLE].current_size
    seen = {}
    for _ in range(20 * size + 200):
        (sample,) = client.sample(EXPERIENCE_TABLE, 1, emit_timesteps=False)
        seen[sample.info.key] = samples_of(reader, sample.data)
        if len(seen) == size:
            return sorted(seen.values(), key=lambda t: key(t).reshape(-1).tolist())
    raise AssertionError(f"sampled only {len(seen)} of {size} items")


def samples_of(reader: SampleReader, item: list[np.ndarray]) -> Transition:
    """The transitions that learners find in an item, columns [rows, size]."""
    mask = reader.are_samples([tf.constant(column)[np.newaxis] for column in item])
    window = reader.layout.window
    transitions = reader.unpack(
        [
            np.stack([column[start : start + window] for start in np.flatnonzero(mask)])
            for column in item
        ]
    )
    if reader.layout.is_block:
        return transitions
    return tree.map_structure(lambda leaf: leaf[0], transitions)


class EpisodeStepEnv(py_environment.PyEnvironment):
    """Observes [episode, step], both from 0; the reward of a step is 100 episode + step.

    Each pair of `ends` gives the length of an episode and the discount of its last step; they are
    repeated. Records `set_state` on the tape `states`.
    """

    def __init__(self, ends: Iterable[tuple[int, float]] = ((3, 0.0),)):
        super().__init__()
        self._ends = itertools.cycle(ends)
        self._episode = -1
        self._position = 0
        self.states: list[dict] = []
        self.num_steps = 0

    def observation_spec(self):
        return array_spec.ArraySpec([2], np.float32, "observation")

    def action_spec(self):
        return ONE_ACTION

    def set_state(self, state):
        self.states.append(state)

    def get_info(self):
        return {}

    def _observation(self):
        return np.array([self._episode, self._position], np.float32)

    def _reset(self):
        self._episode += 1
        self._position = 0
        self._length, self._last_discount = next(self._ends)
        return ts.restart(self._observation())

    def _step(self, action):
        self.num_steps += 1
        self._position += 1
        reward = np.float32(100 * self._episode + self._position)
        if self._position < self._length:
            return ts.transition(self._observation(), reward)
        return ts.TimeStep(
            ts.StepType.LAST, reward, np.float32(self._last_discount), self._observation()
        )


def codec_of(environment: py_environment.PyEnvironment) -> Codec:
    spec = tensor_spec.from_spec(environment.time_step_spec())
    return step_codec(spec.observation, tensor_spec.from_spec(environment.action_spec()), SINGLE)


class TinyParams(TrainParamsBase):
    """EpisodeStepEnv with the smallest networks."""

    n_buffer_init_episodes = 4
    n_episodes_in_buffer = 100
    n_eval_episodes = 3
    num_iter = 4
    num_steps_per_iter = 10
    train_batch_size = 4
    log_period_itrs = 1
    eval_period_itrs = 2
    checkpoint_period_itrs = 2
    actor_fc_layer_params = (4,)
    critic_joint_fc_layer_params = (4,)

    def env_ctor(self, *args, seed=None, **kwargs):
        return EpisodeStepEnv()


def make_tiny_agent(**hyperparameters):
    """Returns (agent, train step) of TinyParams."""
    params = TinyParams({"horizon": 3})
    for name, value in hyperparameters.items():
        setattr(params, name, value)
    return make_agent(params, params.env_ctor())


def make_experiment(folder: pathlib.Path, class_body: str = "pass") -> ExperimentPaths:
    """An experiment of TinyParams with horizon 10, as the launcher leaves it to the programs."""
    paths = ExperimentPaths(folder)
    folder.mkdir()
    write_json_atomically(paths.config, {"horizon": 10})
    paths.params.write_text(
        f"from replay_fakes import TinyParams\nclass TrainParams(TinyParams):\n    {class_body}\n"
    )
    provenance = {"seed": 3, "gin_bindings": [], "params_dir": str(folder)}
    write_json_atomically(paths.provenance, provenance)
    begin_run(paths)
    return paths


def write_run_spec(paths: ExperimentPaths, pads_episodes: bool = True) -> None:
    """Agrees on the run, as the learner of `make_experiment` does."""
    run, environment = load_run(str(paths.root)), EpisodeStepEnv()
    specs = environment.observation_spec(), environment.action_spec()
    layout = ItemLayout.from_settings(run.params)
    layout = dataclasses.replace(layout, pads_episodes=pads_episodes)
    spec = view_of_run(run, *specs, step_codec(*specs, layout), layout, "float32")
    spec.agree(paths.run_spec)


class Stop:
    """A stop flag for threads."""

    def __init__(self):
        self.is_set = False

    def __bool__(self):
        return self.is_set


class SleepingWatchdog:
    """A real one would end the tests."""

    def feed(self):
        pass

    def rest(self):
        pass
