import numpy as np
import pytest
from fakes import CountingEnv
from tf_agents.environments import batched_py_environment

from tfagents_system.core.errors import ConfigError
from tfagents_system.environments.construction import make_environment
from tfagents_system.train_params_base import TrainParamsBase


class Params(TrainParamsBase):
    """Writes each call of `env_ctor` on a tape."""

    def __init__(self):
        super().__init__({"horizon": 10})
        self.tape = []

    def env_ctor(self, *args, seed=None, **kwargs):
        self.tape.append((args, seed, kwargs))
        return CountingEnv(terminates_at=3)


def tape_of(params):
    """What `env_ctor` receives for the collect and the eval environment of worker 2."""
    make_environment(params, worker_id=2, is_collect=True, seed=7)
    make_environment(params, worker_id=2, is_collect=False, seed=8)
    return params.tape


def test_without_hooks_only_the_seed_is_given():
    assert tape_of(Params()) == [((), 7, {}), ((), 8, {})]


def test_environment_is_returned():
    environment = make_environment(Params(), worker_id=0, is_collect=True, seed=1)
    environment.reset()
    steps = [environment.step(np.zeros(1, np.float32)) for _ in range(3)]
    assert [step.observation.tolist() for step in steps] == [[1.0], [2.0], [3.0]]
    assert [float(step.discount) for step in steps] == [1.0, 1.0, 0.0]


def test_hooks_with_both_arguments_receive_worker_and_kind():
    class WithBoth(Params):
        def collect_env_args_kwargs(self, id, collect_env):
            return ("ant",), {"worker": id, "is_collect": collect_env}

        def eval_env_args_kwargs(self, id=None, collect_env=None):
            return ("ant",), {"worker": id, "is_collect": collect_env}

    assert tape_of(WithBoth()) == [
        (("ant",), 7, {"worker": 2, "is_collect": True}),
        (("ant",), 8, {"worker": 2, "is_collect": False}),
    ]


def test_hooks_with_one_none_or_any_argument_receive_what_they_name():
    class WithOne(Params):
        def collect_env_args_kwargs(self, id):
            return (id,), {}

        def eval_env_args_kwargs(self):
            return ("no arguments",), {}

    class WithAny(Params):
        def collect_env_args_kwargs(self, **kwargs):
            return (), kwargs

        def eval_env_args_kwargs(self, *args, **kwargs):
            return args, kwargs

    assert tape_of(WithOne()) == [((2,), 7, {}), (("no arguments",), 8, {})]
    assert tape_of(WithAny()) == [
        ((), 7, {"id": 2, "collect_env": True}),
        ((), 8, {"id": 2, "collect_env": False}),
    ]


@pytest.mark.parametrize("result", [None, ("ant", {}), ((), []), ((),)])
def test_a_hook_that_returns_no_args_and_kwargs_is_refused(result):
    class Wrong(Params):
        def collect_env_args_kwargs(self):
            return result

    with pytest.raises(ConfigError, match="collect_env_args_kwargs returned .*allowed is a pair"):
        make_environment(Wrong(), worker_id=0, is_collect=True, seed=1)


def test_seed_of_a_hook_holds():
    class WithSeed(Params):
        def eval_env_args_kwargs(self, **kwargs):
            return (), {"seed": 1234}

    assert tape_of(WithSeed()) == [((), 7, {}), ((), 1234, {})]


@pytest.mark.parametrize("result", [None, {}, ((), {}, 1), ((), [])])
def test_hook_that_returns_no_pair_raises(result):
    class Wrong(Params):
        def eval_env_args_kwargs(self, **kwargs):
            return result

    with pytest.raises(ConfigError) as error:
        make_environment(Wrong(), worker_id=0, is_collect=False, seed=1)
    assert str(error.value) == (
        f"TrainParams.eval_env_args_kwargs returned {result!r}; allowed is a pair (args, kwargs)."
    )


@pytest.mark.parametrize(("environment", "name"), [(None, "NoneType"), (object(), "object")])
def test_constructor_of_something_else_raises(environment, name):
    class Wrong(Params):
        def env_ctor(self, *args, seed=None, **kwargs):
            return environment

    with pytest.raises(ConfigError, match=f"env_ctor returned a {name}; allowed is a TF-Agents Py"):
        make_environment(Wrong(), worker_id=0, is_collect=True, seed=1)


def test_batched_environment_raises():
    class Wrong(Params):
        def env_ctor(self, *args, seed=None, **kwargs):
            return batched_py_environment.BatchedPyEnvironment([CountingEnv(), CountingEnv()])

    with pytest.raises(ConfigError, match="batched environment; allowed is one whose observations"):
        make_environment(Wrong(), worker_id=0, is_collect=True, seed=1)
