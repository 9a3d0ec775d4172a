import io
import random

import numpy as np
import pytest
from fakes import CountingEnv
from slot_fakes import SlotEnv

from tfagents_system.collection.info_numbers import InfoNumbers
from tfagents_system.core.process.guest import UserCodeError
from tfagents_system.environments.own_arrays import InvalidArrayError
from tfagents_system.evaluation import evaluator, summary
from tfagents_system.policies.acting import RandomPolicy
from tfagents_system.terminal.lines import Terminal


class Params:
    """The part of a TrainParams that makes environments."""

    frame_stack = action_repeat = 1
    time_aware = False
    image_layouts = None
    entity_observations = goal_observations = ()
    goal_conditioning_type = "hyper"

    def __init__(self, env_ctor):
        self.env_ctor = env_ctor

    def eval_env_args_kwargs(self, id, collect_env):
        return (id, collect_env), {}


class GlobalNoiseEnv(CountingEnv):
    """Adds what the global generators draw to its reward."""

    def _step(self, action):
        noise = np.random.random() + random.random()
        time_step = super()._step(action)
        return time_step._replace(reward=np.float32(time_step.reward + noise))


class ZeroPolicy:
    def initial_state(self):
        return ()

    def action(self, time_step, state):
        return np.zeros(1, np.float32), state


def run_episodes(
    environment, num_episodes, should_stop=lambda: False, video_folder=None, numbers=None
):
    """Returns (results, what was printed)."""
    output = io.StringIO()
    results = evaluator.run_episodes(
        environment, ZeroPolicy(), 10, num_episodes, video_folder, Terminal(output), should_stop,
        numbers=numbers,
    )  # fmt: skip
    return results, output.getvalue()


def test_eval_environment_gets_the_arguments_of_its_hook_and_the_seed_itself():
    calls = []

    def env_ctor(*args, seed):
        calls.append((args, seed))
        return CountingEnv()

    evaluator.make_eval_environment(Params(env_ctor), 108)
    assert calls == [((0, None), 108)]


def test_same_seed_repeats_an_environment_that_draws_from_the_global_generators():
    def returns(seed):
        params = Params(lambda *args, seed: GlobalNoiseEnv(terminates_at=3))
        results, _ = run_episodes(evaluator.make_eval_environment(params, seed), 2)
        return [result.episode.episode_return for result in results]

    assert returns(1) == returns(1) != returns(2)
    assert len(set(returns(1))) == 2


def test_table_grows_by_a_row_an_episode():
    results, output = run_episodes(CountingEnv(terminates_at=3), 2)
    assert [(r.number, r.episode.length, r.video) for r in results] == [(0, 3, None), (1, 3, None)]
    assert output.splitlines() == [
        "episode        return   length  success",
        "      0             6        3  -",
        "      1             6        3  -",
    ]


class SometimesEnv(CountingEnv):
    """Reports what `infos` say of each episode."""

    def __init__(self, infos):
        super().__init__(terminates_at=1)
        self._infos = iter(infos)

    def get_info(self):
        return next(self._infos)


def test_an_episode_without_a_report_of_success_has_failed_once_one_has_been_seen():
    infos = [{}, {"is_success": np.array([1.0])}, {}]
    results, output = run_episodes(SometimesEnv(infos), 3)
    assert [line.split()[-1] for line in output.splitlines()[1:]] == ["-", "yes", "no"]
    assert summary.summary_lines(results)[-1] == "success rate 33% (1 of 3)"


def test_a_success_that_cannot_be_read_is_said_once():
    infos = [{"success": np.zeros(2)}] * 3
    results, output = run_episodes(SometimesEnv(infos), 3)
    assert output.count("info['success'] is float64 of shape (2,); expected a bool, 0 or 1") == 1
    assert len(results) == 3 and not summary.summary_lines(results)[-1].startswith("success")


def test_numbers_of_log_info_are_summed_up_and_faults_said_once():
    environment = CountingEnv(terminates_at=3)
    environment.get_info = lambda: {"count": environment._count}
    results, output = run_episodes(environment, 2, numbers=InfoNumbers(["count:max", "speed"]))
    assert summary.summary_lines(results)[-1] == "mean count_max 3, standard error 0"
    assert output.count("log_info has 'speed', but no key of the environment's info matches") == 1


def test_a_terminal_shows_the_progress_and_a_file_does_not():
    class Screen(io.StringIO):
        def isatty(self):
            return True

    shown = {}
    for stream in (Screen(), io.StringIO()):
        evaluator.run_episodes(
            CountingEnv(terminates_at=3), ZeroPolicy(), 10, 2, None,
            Terminal(stream, period_secs=0.0), lambda: False,
        )  # fmt: skip
        shown[stream.isatty()] = stream.getvalue()
    assert "[" + "#" * 13 + "." * 7 + "] 1 of 2 episodes; step 1 of 10, return 1; " in shown[True]
    assert "#" not in shown[False] and len(shown[False].splitlines()) == 3


def test_stop_in_an_episode_leaves_it_out(tmp_path):
    class RenderingEnv(CountingEnv):
        def render(self, mode="rgb_array"):
            return np.zeros((32, 32, 3), np.uint8)

    answers = iter([False, False, False, False, True])
    results, _ = run_episodes(
        RenderingEnv(terminates_at=3), 5, lambda: next(answers), video_folder=tmp_path
    )
    assert [result.video for result in results] == [tmp_path / "episode_0.mp4"]
    assert [path.name for path in tmp_path.iterdir()] == ["episode_0.mp4"]


def test_the_agents_of_a_simulator_act_at_once_and_the_first_episode_of_each_counts():
    output = io.StringIO()
    environment = SlotEnv([[1], [3], [2]])
    results = evaluator.run_episodes(
        environment, RandomPolicy(environment.action_spec(), 0), 10, 4, None, Terminal(output),
        lambda: False,
    )  # fmt: skip
    assert [(r.number, r.episode.length) for r in results] == [(0, 1), (1, 3), (2, 2), (3, 1)]
    assert environment.tape.count("reset") == 2
    assert len(output.getvalue().splitlines()) == 1 + 4


def test_what_a_simulator_raises_is_an_error_of_user_code():
    environment = SlotEnv([[5], [5]], fails_at=3)
    with pytest.raises(UserCodeError, match=r"SlotEnv.step raised RuntimeError: the build ended"):
        evaluator.run_episodes(
            environment, RandomPolicy(environment.action_spec(), 0), 10, 2, None,
            Terminal(io.StringIO()), lambda: False,
        )  # fmt: skip


class NanSlotEnv(SlotEnv):
    """Observes NaN in the second step of slot 1."""

    def _observe(self, slot):
        is_broken = (slot, self._steps[slot]) == (1, 2)
        return np.float32([np.nan, 0]) if is_broken else super()._observe(slot)


def test_nan_in_a_slot_ends_the_evaluation_as_in_a_single_environment():
    environment = NanSlotEnv([[5], [5]])
    with pytest.raises(InvalidArrayError, match="observation is not finite at env step 2"):
        evaluator.run_episodes(
            environment, RandomPolicy(environment.action_spec(), 0), 10, 2, None,
            Terminal(io.StringIO()), lambda: False,
        )  # fmt: skip
