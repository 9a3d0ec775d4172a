"""The environments of a worker: for collection, evaluation and in slots."""

import json

import pytest
from replay_fakes import SleepingWatchdog, make_experiment

from tfagents_system.collection.worker_environments import make_environments
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.programs.params_loader import load_run
from tfagents_system.core.state.running import begin_run
from tfagents_system.environments.guest_environment import as_made
from tfagents_system.environments.replaceable import EnvironmentFailure


def environments_of(run, num_slots=1):
    """Those of worker 1."""
    run.params.envs_per_worker = num_slots
    return make_environments(run, 1, lambda *_, **__: 0, SleepingWatchdog())


FIRST_TWO_FAIL = """
    def env_ctor(self, *args, seed=None, **kwargs):
        from replay_fakes import EpisodeStepEnv
        self._num_made = getattr(self, "_num_made", 0) + 1
        return EpisodeStepEnv(ends=() if self._num_made <= 2 else [(3, 0.0)])

    def eval_env_args_kwargs(self, id, collect_env):
        self.seen = (id, collect_env)
        return (), {}
"""


def test_the_eval_environment_gets_the_collect_environment_of_now(tmp_path):
    run = load_run(str(make_experiment(tmp_path / "exp", FIRST_TWO_FAIL).root))
    collect_env, eval_env, *_ = environments_of(run)
    first = collect_env.current()
    assert run.params.seen == (1, as_made(first))
    for environment in (collect_env, eval_env):
        with pytest.raises(EnvironmentFailure):
            environment.reset()
    eval_env.reset()
    assert collect_env.current() is not first
    assert run.params.seen == (1, as_made(collect_env.current()))


SHARED = """
    num_made = 0

    def env_ctor(self, collect_env=None, seed=None):
        from replay_fakes import EpisodeStepEnv

        class Env(EpisodeStepEnv):
            is_broken = is_closed = False

            def _reset(self):
                if self.is_broken or self.is_closed:
                    raise RuntimeError("closed" if self.is_closed else "broken")
                return super()._reset()

            def close(self):
                self.is_closed = True

        if collect_env is not None:
            return collect_env
        self.num_made += 1
        return Env()

    def eval_env_args_kwargs(self, id, collect_env):
        return (), {"collect_env": collect_env}
"""


@pytest.mark.parametrize("failing", ["collect", "eval"])
def test_environments_that_are_one_are_closed_and_replaced_together(tmp_path, failing):
    run = load_run(str(make_experiment(tmp_path / "exp", SHARED).root))
    pair = environments_of(run)
    seen = []
    for num_made in range(1, 4):
        shared = as_made(pair.collect.current())
        assert as_made(pair.eval.current()) is shared and not shared.is_closed
        assert run.params.num_made == num_made
        seen.append(shared)
        shared.is_broken = True
        with pytest.raises(EnvironmentFailure, match="broken"):
            getattr(pair, failing).reset()
        for environment in (pair.collect, pair.eval):
            environment.reset()
    assert all(environment.is_closed for environment in seen)


def test_evaluations_do_not_share_what_a_curriculum_changes(tmp_path):
    for period in (5, 0):
        paths = make_experiment(
            tmp_path / str(period), f"{SHARED}    eval_period_itrs = {period}\n"
        )
        config = json.loads(paths.config.read_text())
        config["curriculum"] = {"difficulty": {"iters": [0, 10], "range": [0.5, 1.5]}}
        paths.config.write_text(json.dumps(config))
        begin_run(paths)
        run = load_run(str(paths.root))
        if period:
            with pytest.raises(ConfigError, match="The config has a curriculum, and eval_env_args"):
                environments_of(run)
        else:
            environments_of(run)


SAME = """
    def env_ctor(self, seed=None):
        from replay_fakes import EpisodeStepEnv
        self.made = getattr(self, "made", None) or EpisodeStepEnv()
        return self.made
"""


@pytest.mark.parametrize(
    "body, message",
    [
        (SAME, "envs_per_worker is 2, but env_ctor has returned the same environment twice"),
        (SHARED, "envs_per_worker is 2, but eval_env_args_kwargs makes an environment of collect"),
    ],
)
def test_slots_share_no_environment(tmp_path, body, message):
    run = load_run(str(make_experiment(tmp_path / "exp", body).root))
    with pytest.raises(ConfigError, match=message):
        environments_of(run, num_slots=2)


VECTOR = """
    def env_ctor(self, num_envs=1, seed=None):
        import gymnasium
        return gymnasium.make_vec("Pendulum-v1", num_envs=num_envs)

    def collect_env_args_kwargs(self, id):
        return (), {"num_envs": 3}
"""


def test_the_environments_of_a_vector_environment_are_slots(tmp_path):
    run = load_run(str(make_experiment(tmp_path / "exp", VECTOR).root))
    made = environments_of(run)
    assert (made.num_slots, made.slots().num_slots, len(made.other_observers)) == (3, 3, 2)
    steps = made.slots().reset({0: {}, 1: {}, 2: {}})
    assert all(step.is_first() and step.observation.shape == (3,) for step in steps.values())
    assert len({float(step.observation[0]) for step in steps.values()}) == 3
    assert made.eval.reset().observation.shape == (3,)
    made.close()


@pytest.mark.parametrize("setting, value", [("time_aware", True), ("her_copies", 4)])
def test_settings_that_do_not_go_with_a_vector_environment_are_refused(tmp_path, setting, value):
    run = load_run(str(make_experiment(tmp_path / "exp", VECTOR).root))
    setattr(run.params, setting, value)
    with pytest.raises(ConfigError, match=f"{setting} is {value}, but env_ctor returns an env"):
        environments_of(run)


AGENTS = """
    def env_ctor(self, num_agents=3, seed=None):
        from parallel_fakes import ParallelWorld
        self.num_made = getattr(self, "num_made", 0) + 1
        return ParallelWorld(num_agents + self.more * self.num_made)
"""


def test_several_simulators_have_their_slots_one_after_another(tmp_path):
    run = load_run(str(make_experiment(tmp_path / "exp", AGENTS + "    more = 0").root))
    made = environments_of(run, num_slots=2)
    slots = made.slots()
    assert (made.num_slots, slots.num_slots, len(made.other_observers)) == (6, 6, 5)
    steps = slots.reset({slot: {} for slot in range(6)})
    assert [steps[slot].observation[0] for slot in range(6)] == [0, 1, 2, 0, 1, 2]
    assert slots.environment(2) is made.collect and slots.environment(3) is made.others[0]
    assert made.greedy_episodes().num_at_once() == 3
    made.close()


def test_simulators_with_different_numbers_of_agents_are_refused(tmp_path):
    run = load_run(str(make_experiment(tmp_path / "exp", AGENTS + "    more = 1").root))
    with pytest.raises(ConfigError, match="is 2, but env_ctor has returned .* 4 and 5 agents"):
        environments_of(run, num_slots=2)


EVALUATES_COLLECT = """
    def env_ctor(self, collect_env=None, seed=None):
        from parallel_fakes import ParallelWorld
        return collect_env or ParallelWorld()

    def eval_env_args_kwargs(self, id, collect_env):
        return (), {"collect_env": collect_env}
"""


def test_an_evaluation_in_the_simulator_of_collection_is_refused(tmp_path):
    run = load_run(str(make_experiment(tmp_path / "exp", EVALUATES_COLLECT).root))
    with pytest.raises(ConfigError, match="makes an environment of collect_env; expected one of"):
        environments_of(run)


FAILS_TO_START = """
    def env_ctor(self, seed=None):
        from replay_fakes import EpisodeStepEnv

        class Simulator(EpisodeStepEnv):
            @property
            def num_slots(self):
                raise RuntimeError("the build ended")

            def reset_slots(self, slots):
                return {}

            def step_slots(self, actions):
                return {}

            def slot_info(self, slot):
                return {}

        return Simulator()
"""


def test_a_simulator_that_does_not_start_is_a_failure_of_the_environment(tmp_path):
    run = load_run(str(make_experiment(tmp_path / "exp", FAILS_TO_START).root))
    with pytest.raises(EnvironmentFailure, match="the build ended"):
        environments_of(run)
