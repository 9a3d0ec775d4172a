import numpy as np
import pytest
from fakes import CountingEnv
from tf_agents.environments import batched_py_environment

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.process.guest import UserCodeError
from tfagents_system.environments.construction import (
    make_collect_environment,
    make_eval_environment,
)
from tfagents_system.train_params_base import TrainParamsBase


class Params(TrainParamsBase):
    """Writes each call of `env_ctor` on a tape."""

    def __init__(self):
        super().__init__({"horizon": 10})
        self.tape = []

    def env_ctor(self, *args, seed=None, **kwargs):
        self.tape.append((args, seed, kwargs))
        return CountingEnv(terminates_at=3)


COLLECT_ENV = CountingEnv()


def tape_of(params):
    """What `env_ctor` receives: in worker 2 for collection and evaluation, and from run.py."""
    make_collect_environment(params, seed=7, worker_id=2)
    make_eval_environment(params, seed=8, worker_id=2, collect_env=COLLECT_ENV)
    make_eval_environment(params, seed=9)
    return params.tape


def test_without_hooks_only_the_seed_is_given():
    assert tape_of(Params()) == [((), 7, {}), ((), 8, {}), ((), 9, {})]


def test_environment_is_returned():
    environment = make_collect_environment(Params(), seed=1)
    environment.reset()
    steps = [environment.step(np.zeros(1, np.float32)) for _ in range(3)]
    assert [step.observation.tolist() for step in steps] == [[1.0], [2.0], [3.0]]
    assert [float(step.discount) for step in steps] == [1.0, 1.0, 0.0]


def test_hooks_that_require_both_arguments_receive_them_or_what_stands_for_nothing():
    class WithBoth(Params):
        def collect_env_args_kwargs(self, id, collect_env):
            return ("ant",), {"worker": id, "collect_env": collect_env}

        def eval_env_args_kwargs(self, id, collect_env):
            return ("ant",), {"worker": id, "collect_env": collect_env}

    assert tape_of(WithBoth()) == [
        (("ant",), 7, {"worker": 2, "collect_env": None}),
        (("ant",), 8, {"worker": 2, "collect_env": COLLECT_ENV}),
        (("ant",), 9, {"worker": 0, "collect_env": None}),
    ]


def test_hooks_with_defaults_keep_them_where_there_is_nothing_to_give():
    class WithDefaults(Params):
        def collect_env_args_kwargs(self, id=5, collect_env="default"):
            return (id, collect_env), {}

        def eval_env_args_kwargs(self, id=5, collect_env="default"):
            return (id, collect_env), {}

    assert [args for args, _, _ in tape_of(WithDefaults())] == [
        (2, "default"),
        (2, COLLECT_ENV),
        (5, "default"),
    ]


def test_hooks_with_one_none_or_any_argument_receive_what_they_name():
    class WithOne(Params):
        def collect_env_args_kwargs(self):
            return ("no arguments",), {}

        def eval_env_args_kwargs(self, id):
            return (id,), {}

    class WithAny(Params):
        def collect_env_args_kwargs(self, **kwargs):
            return (), kwargs

        def eval_env_args_kwargs(self, *args, **kwargs):
            return args, kwargs

    class WithIdAndAny(Params):
        def eval_env_args_kwargs(self, id, **kwargs):
            return (id,), kwargs

    assert tape_of(WithOne()) == [(("no arguments",), 7, {}), ((2,), 8, {}), ((0,), 9, {})]
    assert tape_of(WithAny()) == [
        ((), 7, {"id": 2}),
        ((), 8, {"id": 2, "collect_env": COLLECT_ENV}),
        ((), 9, {}),
    ]
    assert tape_of(WithIdAndAny())[1:] == [((2,), 8, {"collect_env": COLLECT_ENV}), ((0,), 9, {})]


def test_a_hook_that_requires_something_unknown_is_refused():
    class Wrong(Params):
        def collect_env_args_kwargs(self, worker):
            return (), {}

    with pytest.raises(ConfigError) as error:
        make_collect_environment(Wrong(), seed=1)
    assert str(error.value) == (
        "TrainParams.collect_env_args_kwargs requires the argument 'worker'; it can have id and "
        "collect_env, and others only with a default."
    )


@pytest.mark.parametrize("result", [None, ("ant", {}), ((), []), ((),)])
def test_a_hook_that_returns_no_args_and_kwargs_is_refused(result):
    class Wrong(Params):
        def collect_env_args_kwargs(self):
            return result

    with pytest.raises(ConfigError, match="collect_env_args_kwargs returned .*expected a pair"):
        make_collect_environment(Wrong(), seed=1)


def test_seed_of_a_hook_holds():
    class WithSeed(Params):
        def eval_env_args_kwargs(self, **kwargs):
            return (), {"seed": 1234}

    assert tape_of(WithSeed()) == [((), 7, {}), ((), 1234, {}), ((), 1234, {})]


@pytest.mark.parametrize("result", [None, {}, ((), {}, 1), ((), [])])
def test_hook_that_returns_no_pair_raises(result):
    class Wrong(Params):
        def eval_env_args_kwargs(self, **kwargs):
            return result

    with pytest.raises(ConfigError) as error:
        make_eval_environment(Wrong(), seed=1)
    assert str(error.value) == (
        f"TrainParams.eval_env_args_kwargs returned {result!r}; expected a pair (args, kwargs)."
    )


@pytest.mark.parametrize(("environment", "name"), [(None, "NoneType"), (object(), "object")])
def test_constructor_of_something_else_raises(environment, name):
    class Wrong(Params):
        def env_ctor(self, *args, seed=None, **kwargs):
            return environment

    with pytest.raises(ConfigError, match=f"env_ctor returned a {name}; expected a TF-Agents Py"):
        make_collect_environment(Wrong(), seed=1)


@pytest.mark.parametrize("package", ["gym", "gymnasium"])
def test_a_bare_environment_of_gym_or_gymnasium_gets_its_adapter_and_the_seed(package):
    library = pytest.importorskip(package)

    class Bare(Params):
        def env_ctor(self, *args, seed=None, **kwargs):
            return library.make("Pendulum-v1")

    first, second, other = (
        make_collect_environment(Bare(), seed=seed).reset().observation for seed in (1, 1, 2)
    )
    assert first.tolist() == second.tolist() != other.tolist()


def test_batched_environment_raises():
    class Wrong(Params):
        def env_ctor(self, *args, seed=None, **kwargs):
            return batched_py_environment.BatchedPyEnvironment([CountingEnv(), CountingEnv()])

    with pytest.raises(ConfigError, match="batched environment; expected one whose observations"):
        make_collect_environment(Wrong(), seed=1)


def test_env_ctor_may_take_its_config_and_arguments_apart():
    class Taking(Params):
        arguments = {"joints": [1, 2]}

        def collect_env_args_kwargs(self, **kwargs):
            self.env_config.clear()
            return (), self.arguments

        def env_ctor(self, *args, seed=None, joints, **kwargs):
            self.tape.append((self.env_config.pop("horizon"), list(joints)))
            joints.clear()
            return CountingEnv(terminates_at=3)

    params = Taking()
    for _ in range(2):
        make_collect_environment(params, seed=1)
    assert params.tape == [(10, [1, 2])] * 2
    assert params.env_config == {"horizon": 10}
    assert params.arguments == {"joints": [1, 2]}


def test_an_environment_that_ends_the_program_has_failed():
    class Exiting(Params):
        def env_ctor(self, *args, seed=None, **kwargs):
            raise SystemExit("please set SIM_HOME")

    said = r"TrainParams.env_ctor raised SystemExit: please set SIM_HOME \(.*:\d+\)"
    with pytest.raises(UserCodeError, match=said):
        make_collect_environment(Exiting(), seed=1)
