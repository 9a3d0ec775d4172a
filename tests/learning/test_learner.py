import collections
import re
import threading
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf
from replay_fakes import EpisodeStepEnv, codec_of, make_tiny_agent, serving
from tf_agents.agents import tf_agent
from tf_agents.trajectories import time_step as ts

from tfagents_system.collection.rollouts import run_episode
from tfagents_system.core.process.background import start_thread
from tfagents_system.core.waiting import wait_until
from tfagents_system.data.item_layout import SINGLE, ItemLayout
from tfagents_system.data.sample_reader import SampleReader, step_codec
from tfagents_system.data.transition import MID, Step
from tfagents_system.learning import learner as learner_lib
from tfagents_system.learning.learner import Learner
from tfagents_system.learning.sampling_pool import SamplingPool
from tfagents_system.learning.sources import Source
from tfagents_system.learning.train_loop import TrainLoop
from tfagents_system.learning.train_step import as_experience
from tfagents_system.networks.distributions import SquashedGaussian
from tfagents_system.policies.acting import RandomPolicy
from tfagents_system.rewards.signals import RewardSignals
from tfagents_system.services.adder import Adder
from tfagents_system.services.experience import ExperienceBatches
from tfagents_system.services.replay_limits import ReplayLimits

CODEC = step_codec(tf.TensorSpec([2], tf.float32), tf.TensorSpec([1], tf.float32), SINGLE)
READER = SampleReader(CODEC, SINGLE)
Sample = collections.namedtuple("Sample", "data")


class Extra(NamedTuple):
    doubled: tf.Tensor
    per_row: tf.Tensor  # not a scalar
    name: str


class TapeAgent:
    """Counts train steps; its loss is the mean reward of the minibatch."""

    def __init__(self):
        self.train_step = tf.Variable(0, dtype=tf.int64)
        self.rewards = tf.Variable(0.0)
        self.variables = (self.train_step, self.rewards)

    def train(self, experience):
        loss = tf.reduce_mean(experience.next_time_step.reward)
        self.train_step.assign_add(1)
        self.rewards.assign_add(loss)
        return tf_agent.LossInfo(loss, Extra(2 * loss, experience.next_time_step.reward, "tape"))


def packed_transition(reward, **changes):
    """The rows [2, size] of a transition; `changes` are those of the row where it ends."""
    start = CODEC.zeros()._replace(observation=np.float32([1, 2]))
    end = Step(np.float32(MID), np.float32([2, 3]), np.float32([3]), np.float32(reward),
               np.float32(1))  # fmt: skip
    return np.stack([CODEC.pack(row)[0] for row in (start, end._replace(**changes))])


def batches(rewards):
    """A dataset of minibatches of two rows with the same reward."""
    rows = [[packed_transition(reward)] * 2 for reward in rewards]
    data = np.reshape(rows, [len(rows), 2, *READER.columns[0].shape]).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices(data).map(lambda column: Sample((column,)))


def source(make_iterator, pool=None):
    """The only source of minibatches of two samples."""
    return Source("replay", 2, make_iterator, pool)


def batches_with_bad_reward(rewards, position, bad):
    """`batches`, with `bad`, which a codec refuses to pack, as the reward at `position`."""
    wrong = rewards[position]
    return batches(rewards).map(
        lambda s: Sample((tf.where(s.data[0] == wrong, np.float32(bad), s.data[0]),))
    )


class FakeClock:
    """Each reading is 0.1 s after the one before, so each call of the learner takes 0.1 s."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        self.now += 0.1
        return self.now


def test_as_experience_keeps_every_field_in_its_place():
    packed = np.stack([packed_transition(7, discount=np.float32(0)), packed_transition(8)])
    experience = as_experience(READER.unpack([tf.constant(packed)]))
    time_step, action_step, next_time_step = experience
    assert time_step.step_type.numpy().tolist() == [ts.StepType.FIRST] * 2
    assert time_step.step_type.dtype == tf.int32
    assert time_step.observation.numpy().tolist() == [[1, 2]] * 2
    assert action_step.action.numpy().tolist() == [[3]] * 2
    assert next_time_step.step_type.numpy().tolist() == [ts.StepType.MID] * 2
    assert next_time_step.reward.numpy().tolist() == [7, 8]
    assert next_time_step.discount.numpy().tolist() == [0, 1]
    assert next_time_step.observation.numpy().tolist() == [[2, 3]] * 2


def test_run_does_as_many_steps_as_fit_its_time_and_never_more_than_asked(monkeypatch):
    monkeypatch.setattr(learner_lib, "time", FakeClock())  # 5 times as many in the next 0.5 s
    agent = TapeAgent()
    learner = Learner(agent, READER, [source(lambda: iter(batches(range(2000))))])
    done = []
    for max_steps in (100, 100, 3, 100, 100, 1500, 1500):
        before = int(agent.train_step)
        metrics = learner.run(max_steps)
        assert 0 <= metrics.pop("data_wait_secs") < 1
        steps = int(agent.train_step) - before
        done.append(steps)
        # The batches `before` to `before + steps - 1`, each once, in order.
        assert metrics["loss"] == pytest.approx(before + (steps - 1) / 2)
        assert metrics == pytest.approx({"loss": metrics["loss"], "doubled": 2 * metrics["loss"]})
    assert done == [1, 5, 3, 15, 75, 375, 1000]
    assert float(agent.rewards) == pytest.approx(sum(range(sum(done))))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -3e20])
@pytest.mark.usefixtures("long_calls")
def test_training_ends_with_the_step_that_diverged_and_hands_out_its_minibatch(bad):
    agent = TapeAgent()
    data = batches_with_bad_reward([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], position=5, bad=bad)
    learner = Learner(agent, READER, [source(lambda: iter(data))])
    learner.run(1)
    message = f"loss {bad:g}, doubled {2 * bad:g}"
    with pytest.raises(learner_lib.DivergedError, match=re.escape(message)) as error_info:
        learner.run(9)
    assert int(agent.train_step) == 6
    np.testing.assert_array_equal(error_info.value.minibatch.reward, np.float32([bad, bad]))
    assert error_info.value.minibatch.observation.tolist() == [[1, 2]] * 2


def test_a_variable_that_is_not_finite_counts_as_diverged_although_the_loss_is():
    agent = TapeAgent()
    learner = Learner(agent, READER, [source(lambda: iter(batches([1, 2, 3])))])
    learner.run(1)
    agent.rewards.assign(np.nan)
    with pytest.raises(learner_lib.DivergedError, match="^a variable of the agent is not finite$"):
        learner.run(1)
    assert int(agent.train_step) == 2


@pytest.mark.usefixtures("long_calls")
def test_steps_before_the_data_ended_are_checked_too(monkeypatch):
    agent = TapeAgent()
    learner = Learner(agent, READER, [source(lambda: iter(batches([1, 2])))])
    learner.run(1)
    monkeypatch.setattr(
        TrainLoop, "__call__", lambda *_: _end_after(lambda: agent.rewards.assign(np.nan))
    )
    with pytest.raises(learner_lib.DivergedError) as error_info:
        learner.run(9)
    assert error_info.value.minibatch is None


def _end_after(action):
    action()
    raise tf.errors.OutOfRangeError(None, None, "the data has ended")


def test_run_goes_on_with_a_new_iterator_when_the_data_has_ended(monkeypatch):
    monkeypatch.setattr(learner_lib, "time", FakeClock())
    agent = TapeAgent()
    datasets = [batches([1, 2, 3]), batches([]), batches([4] * 10)]
    iterators = iter(map(iter, datasets))
    learner = Learner(agent, READER, [source(lambda: next(iterators))])
    assert learner.run(10)["loss"] == 1
    assert learner.run(10) is None  # 5 were due; two came
    assert int(agent.train_step) == 3
    assert learner.run(10) is None
    assert learner.run(10)["loss"] == 4  # one step, because several might never come in time
    assert int(agent.train_step) == 3 + 1
    assert learner.run(10)["loss"] == 4
    assert int(agent.train_step) == 3 + 1 + 5
    assert float(agent.rewards) == 1 + 2 + 3 + 6 * 4
    assert learner.num_traces == 1


@pytest.fixture
def long_calls(monkeypatch):
    """From the second call on, a learner does as many steps as it is asked for."""
    monkeypatch.setattr(learner_lib, "CALL_SECS", 1e6)
    monkeypatch.setattr(learner_lib, "UNROLL_AFTER_STEPS", 1)


def unrolled(learner):
    """`learner` after its first step, with both loops compiled."""
    learner.run(1)
    assert learner.is_compiled(learner_lib.UNROLLED_STEPS, wait_secs=60)
    return learner


@pytest.mark.parametrize("unrolls", [True, False])
@pytest.mark.usefixtures("long_calls")
def test_a_run_that_has_lasted_compiles_unrolled_steps_and_goes_on_meanwhile(monkeypatch, unrolls):
    monkeypatch.setattr(learner_lib, "UNROLL_AFTER_STEPS", 10)
    may_compile = threading.Event()
    compile_loop, compiled = TrainLoop.compile, []

    def compile_late(loop, iterator):
        compiled.append(loop)
        if len(compiled) > 1:  # the first is of single steps
            assert may_compile.wait(60)
        compile_loop(loop, iterator)

    monkeypatch.setattr(TrainLoop, "compile", compile_late)
    agent = TapeAgent()
    data = batches(range(100))
    learner = Learner(agent, READER, [source(lambda: iter(data))], unrolls=unrolls)

    def steps_of(max_steps):
        before = int(agent.train_step)
        learner.run(max_steps)
        return int(agent.train_step) - before

    assert [steps_of(n) for n in (1, 9, 9, 9)] == [1, 9, 9, 9]  # compiles from the third on
    assert learner.num_traces == 1
    may_compile.set()
    if unrolls:
        assert learner.is_compiled(learner_lib.UNROLLED_STEPS, wait_secs=60)
    assert steps_of(9) == (5 if unrolls else 9)
    assert learner.num_traces == (2 if unrolls else 1)
    assert float(agent.rewards) == sum(range(int(agent.train_step)))


class Once:
    """A stop that is requested when `event` has happened."""

    def __init__(self, event):
        self._event = event

    def __bool__(self):
        return self._event.is_set()


class SlowAgent(TapeAgent):
    """Is traced when the test allows it."""

    def __init__(self):
        super().__init__()
        self.is_being_traced, self.may_go_on = threading.Event(), threading.Event()

    def train(self, experience):
        self.is_being_traced.set()
        assert self.may_go_on.wait(60)
        return super().train(experience)


def test_the_learner_ends_when_one_of_its_threads_fails():
    agent = TapeAgent()
    learner = Learner(agent, READER, [source(lambda: iter(batches([1, 2, 3])))])
    learner.run(1)
    start_thread(lambda: 1 / 0, "rounds").join()
    with pytest.raises(ZeroDivisionError):
        learner.run(1)
    assert int(agent.train_step) == 1


def test_a_stop_does_not_wait_for_the_first_compilation():
    agent = SlowAgent()
    learner = Learner(agent, READER, [source(lambda: iter(batches([1, 2, 3])))])
    assert not learner.is_compiling
    assert learner.run(1, stop=Once(agent.is_being_traced)) is None
    assert learner.is_compiling
    assert int(agent.train_step) == 0
    agent.may_go_on.set()
    assert learner.run(1)["loss"] == 1  # nothing was taken from the data
    assert not learner.is_compiling


def test_the_caller_hears_of_the_first_compilation():
    agent, heard = SlowAgent(), []
    learner = Learner(agent, READER, [source(lambda: iter(batches([1, 2, 3])))])

    def hear():
        heard.append(learner.is_compiling)
        agent.may_go_on.set()

    assert learner.run(1, while_compiling=hear)["loss"] == 1
    assert heard[0]
    num_heard = len(heard)
    learner.run(1, while_compiling=hear)
    assert len(heard) == num_heard


def test_an_agent_that_cannot_be_traced_raises_its_own_error():
    class WrongAgent(TapeAgent):
        def train(self, experience):
            raise ZeroDivisionError("of the agent")

    learner = Learner(WrongAgent(), READER, [source(lambda: iter(batches([1])))])
    with pytest.raises(ZeroDivisionError, match="of the agent"):
        learner.run(1)


@pytest.mark.usefixtures("long_calls")
def test_unrolled_steps_are_those_that_were_asked_for():
    agent = TapeAgent()
    learner = unrolled(Learner(agent, READER, [source(lambda: iter(batches(range(1, 100))))]))
    done = []
    for max_steps in (1, 4, 5, 9, 15):
        before = int(agent.train_step)
        metrics = learner.run(max_steps)
        done.append(int(agent.train_step) - before)
        # The batches before + 1, ..., before + steps, each once.
        assert metrics["loss"] == pytest.approx(before + (done[-1] + 1) / 2)
        assert 0 <= metrics["data_wait_secs"] < 1
    assert done == [1, 4, 5, 5, 15]
    assert float(agent.rewards) == sum(range(1, 1 + 1 + sum(done)))


@pytest.mark.parametrize("position", [1, 2, 5, 7, 10])
@pytest.mark.usefixtures("long_calls")
def test_of_unrolled_steps_the_one_that_diverged_is_handed_out(position):
    agent = TapeAgent()
    data = batches_with_bad_reward(range(1, 17), position, bad=-3e20)
    learner = unrolled(Learner(agent, READER, [source(lambda: iter(data))]))
    with pytest.raises(learner_lib.DivergedError, match="^loss -3e\\+20") as error_info:
        learner.run(15)
    np.testing.assert_array_equal(error_info.value.minibatch.reward, np.float32([-3e20] * 2))
    assert int(agent.train_step) == 1 + 5 * ((position - 1) // 5 + 1)


@pytest.mark.usefixtures("long_calls")
def test_data_that_ends_within_unrolled_steps_leaves_none_of_them_done():
    agent = TapeAgent()
    datasets = [batches(range(1, 1 + 1 + 5 + 4)), batches([100])]
    iterators = iter(map(iter, datasets))
    learner = unrolled(Learner(agent, READER, [source(lambda: next(iterators))]))
    assert learner.run(10) is None
    assert int(agent.train_step) == 1 + 5
    assert float(agent.rewards) == 1 + (2 + 3 + 4 + 5 + 6)
    assert learner.run(10)["loss"] == 100  # one step, because five might never come in time


@pytest.mark.usefixtures("long_calls")
def test_unrolled_steps_of_sac_do_what_single_ones_do(monkeypatch):
    monkeypatch.setattr(
        SquashedGaussian,
        "_sample_pre_tanh",
        lambda self, shape, seed: (self._loc + 0.3 * tf.exp(self._log_std), 0.3 + 0 * self._loc),
    )
    data = batches(np.linspace(-1, 1, 11))
    rates = {f"{name}_learning_rate": 0.01 for name in ("actor", "critic", "alpha")}
    agents, train_steps = zip(*(make_tiny_agent(**rates) for _ in range(2)), strict=True)
    for variable, of_unrolled in zip(*(agent.variables for agent in agents), strict=True):
        of_unrolled.assign(variable)
    learners = [Learner(agent, READER, [source(lambda: iter(data))]) for agent in agents]
    unrolled(learners[1])
    for learner, train_step in zip(learners, train_steps, strict=True):
        while int(train_step) < 11:
            learner.run(10)
    assert [learner.num_traces for learner in learners] == [1, 2]
    for variable, of_unrolled in zip(*(agent.variables for agent in agents), strict=True):
        np.testing.assert_allclose(of_unrolled, variable, rtol=1e-5, atol=1e-6)


class Counted(tf.Module):
    """Pays the number of minibatches so far times the environment's reward."""

    strength = 0.5

    def __init__(self):
        super().__init__(name="counted")
        self.num_minibatches = tf.Variable(0.0)

    def reward(self, transition):
        return self.num_minibatches * transition.reward

    def train(self, transition):
        self.num_minibatches.assign_add(1.0)
        return {"loss": self.num_minibatches + 0.0}


def test_a_signal_adds_its_reward_by_its_strength_and_then_learns():
    signals, agent = RewardSignals([Counted()]), TapeAgent()
    learner = Learner(
        agent,
        READER,
        [source(lambda: iter(batches([1, 2, 3])))],
        reward_signals=signals,
        unrolls=False,
    )
    metrics = [learner.run(1) for _ in range(3)]
    expected = [1 + 0.5 * 0 * 1, 2 + 0.5 * 1 * 2, 3 + 0.5 * 2 * 3]
    assert [m["loss"] for m in metrics] == expected
    assert [m["counted_reward"] for m in metrics] == [0 * 1, 1 * 2, 2 * 3]
    assert [m["counted_loss"] for m in metrics] == [1, 2, 3]


def test_targets_of_sac_are_those_of_all_rewards():
    data, targets = batches([5.0]), []
    signal = Counted()
    signal.num_minibatches.assign(3)
    for signals in (None, RewardSignals([signal])):
        agent, _ = make_tiny_agent(discount=0.0)  # the target is the reward
        learner = Learner(agent, READER, [source(lambda: iter(data))], reward_signals=signals)
        targets.append(learner.run(1)["td_target"])
    assert targets == [5, 5 + 0.5 * 3 * 5]


def test_variables_of_a_signal_that_are_not_finite_count_as_diverged():
    signal = Counted()
    signal.scale = tf.Variable(np.nan)
    signals = RewardSignals([signal])
    learner = Learner(
        TapeAgent(), READER, [source(lambda: iter(batches([1])))], reward_signals=signals
    )
    with pytest.raises(learner_lib.DivergedError, match="is not finite"):
        learner.run(1)


def learner_with_pool_of_one_minibatch(agent, dataset):
    pool = SamplingPool(READER, capacity=2, num_initial=2, num_fresh=2, batch_size=2)
    return Learner(agent, READER, [source(lambda: iter(dataset), pool)])


@pytest.mark.usefixtures("long_calls")
def test_minibatches_of_a_pool_hold_what_came_before_their_step():
    agent = TapeAgent()
    learner = learner_with_pool_of_one_minibatch(agent, batches([1, 2, 3, 4, 5]))
    assert learner.run(1)["loss"] == 1
    assert learner.run(2)["loss"] == (2 + 3) / 2
    assert learner.run(10) is None  # after the step during which 5 came
    assert int(agent.train_step) == 4
    assert float(agent.rewards) == 1 + 2 + 3 + 4


@pytest.mark.usefixtures("long_calls")
def test_minibatches_of_a_pool_hold_what_came_before_their_unrolled_step():
    agent = TapeAgent()
    learner = learner_with_pool_of_one_minibatch(agent, batches(range(1, 13)))
    assert unrolled(learner).run(10)["loss"] == (2 + 3 + 4 + 5 + 6 + 7 + 8 + 9 + 10 + 11) / 10
    assert learner.num_traces == 2


@pytest.mark.usefixtures("long_calls")
def test_a_minibatch_of_a_pool_that_diverges_is_handed_out():
    agent = TapeAgent()
    data = batches_with_bad_reward([1, 2, 3, 4, 5, 6], position=3, bad=np.nan)
    learner = learner_with_pool_of_one_minibatch(agent, data)
    learner.run(1)
    with pytest.raises(learner_lib.DivergedError) as error_info:
        learner.run(5)
    assert int(agent.train_step) == 4
    np.testing.assert_array_equal(error_info.value.minibatch.reward, [np.nan, np.nan])


@pytest.mark.system
@pytest.mark.parametrize("layout", [SINGLE, ItemLayout(2, is_sequence=True)])
def test_sac_learns_from_a_server_that_starves_it_and_comes_back(tmp_path, layout):
    # As many samples as inserts.
    limits = ReplayLimits(capacity=100, min_size=20, samples_per_insert=1.0, error_buffer=20.0)
    recurrent = {"recurrent": True} if layout.is_sequence else {}
    agent, train_step = make_tiny_agent(**recurrent)
    environment = EpisodeStepEnv(ends=[(100, 1.0)])
    codec = codec_of(environment)
    reader = SampleReader(codec, layout)

    def add(replay, num_items):
        adder = Adder(replay.client(), codec, layout)
        num_steps = num_items + layout.length - 1
        run_episode(environment, RandomPolicy(environment.action_spec(), 0), num_steps, adder.add)
        adder.send()
        assert adder.is_confirmed(timeout_secs=60)

    def learn_until_starved():
        while learner.run(100) is not None:
            pass

    with serving(tmp_path / "before", limits) as replay:

        def make_iterator():
            return iter(ExperienceBatches(
                replay.address, reader, batch_size=4, num_in_flight=4,
                timeout_secs=2.0,
            ))  # fmt: skip

        learner = Learner(agent, reader, [Source("replay", 4, make_iterator)])
        assert learner.run(100) is None
        add(replay, 20)
        learn_until_starved()
        assert 0 < int(train_step) <= 20 / 4
        before = int(train_step)
        add(replay, 20)
        metrics = learner.run(1)
        assert int(train_step) == before + 1
        assert metrics.keys() >= {"loss", "critic_loss", "actor_loss", "alpha", "entropy"}
        assert all(map(np.isfinite, metrics.values()))
        learn_until_starved()
    before = int(train_step)
    for _ in range(2):
        assert learner.run(100) is None  # and does not wait for the server
    assert int(train_step) == before
    with serving(tmp_path / "after", limits, port=replay.port) as replay:
        add(replay, 20)

        def has_learned():
            learner.run(100)
            return int(train_step) > before

        wait_until(has_learned, 60, "a train step")
