"""Actions that a person or a safety layer has taken in place of the policy."""

import numpy as np
import pytest
from fakes import CountingEnv
from replay_fakes import SleepingWatchdog
from tf_agents.specs import array_spec

from tfagents_system.collection.info_numbers import InfoNumbers
from tfagents_system.collection.interventions import Interventions, TakenActionError
from tfagents_system.collection.step_observers import StepObservers
from tfagents_system.collection.worker_environments import Environments
from tfagents_system.core.meters import PhaseTimer
from tfagents_system.environments.replaceable import EnvironmentFailure, ReplaceableEnvironment

BOX = array_spec.BoundedArraySpec([2], np.float32, -1.0, [1.0, 3.0], "action")
CHOICE = array_spec.BoundedArraySpec([], np.int64, 0, 4, "action")
POLICYS = np.array([0.5, 0.5], np.float32)


def taken(reported, spec=BOX):
    return Interventions(spec).taken(POLICYS, {"action": reported})


@pytest.mark.parametrize(
    "info",
    [None, {}, {"distance": 1.0}, {"action": None}, {"intervention": None}, "text", (), np.ones(2)],
)
def test_the_policys_action_is_stored_if_no_other_is_reported(info):
    interventions = Interventions(BOX)
    assert interventions.taken(POLICYS, info) is POLICYS
    assert interventions.numbers == {}


def test_the_reported_action_is_cast_and_copied():
    reported = np.array([-1.0, 3.0])
    action = taken(reported)
    reported[:] = 0
    assert action.dtype == np.float32 and action.tolist() == [-1.0, 3.0]
    assert taken([0, 1]).tolist() == [0.0, 1.0]
    choice = taken(3, CHOICE)
    assert choice.dtype == np.int64 and choice == 3


def test_a_nest_of_actions_is_reported_as_a_nest():
    spec = {"arm": BOX, "grip": CHOICE}
    action = taken({"arm": [0.0, 2.0], "grip": np.int32(1)}, spec)
    assert action["arm"].tolist() == [0.0, 2.0] and action["grip"] == 1
    with pytest.raises(
        TakenActionError, match=r"info\['action'\]\['grip'\].* has shape \[1\], not"
    ):
        taken({"arm": [0.0, 2.0], "grip": [1]}, spec)
    with pytest.raises(TakenActionError, match="is built otherwise"):
        taken({"arm": [0.0, 2.0]}, spec)


@pytest.mark.parametrize(
    ("reported", "spec", "message"),
    [
        ([0.0], BOX, r"has shape \[1\], not \[2\]"),
        ([0.0, 3.5], BOX, r"is \[0.0, 3.5\], beyond -1.0 to \[1.0, 3.0\]"),
        ([0.0, np.nan], BOX, r"is \[0.0, nan\], beyond"),
        (np.array("left"), CHOICE, "has the type .*, which is not a number"),
        (2.5, CHOICE, "is 2.5, which is not an integer"),
        (5, CHOICE, "is 5, beyond 0 to 4"),
    ],
)
def test_what_is_no_action_is_told(reported, spec, message):
    with pytest.raises(TakenActionError, match=f"at env step 1 of the episode, {message}"):
        taken(reported, spec)


def test_the_share_counts_the_env_steps_of_an_episode():
    interventions = Interventions(BOX)
    infos = [{"intervention": True, "action": [0, 0]}, {"intervention": False}, {}, {}]
    for info in infos:
        interventions.taken(POLICYS, info)
    assert interventions.numbers == {"interventions": 1 / 4}


@pytest.mark.parametrize("flag", [1, np.True_, np.array([1.0])])
def test_a_flag_is_a_bool_or_a_number(flag):
    interventions = Interventions(BOX)
    interventions.taken(POLICYS, {"intervention": flag})
    assert interventions.is_newest and interventions.numbers == {"interventions": 1}


@pytest.mark.parametrize(
    ("flag", "shown"),
    [("no", "'no'"), (np.nan, "nan"), ([], r"float64 of shape \(0,\)"),
     (np.array([True, False]), r"bool of shape \(2,\)")],
)  # fmt: skip
def test_what_is_no_flag_is_told(flag, shown):
    message = rf"info\['intervention'\] is {shown}; expected a bool, 0 or 1, .* at env step 1 of"
    with pytest.raises(TakenActionError, match=message):
        Interventions(BOX).taken(POLICYS, {"intervention": flag})


class TakenOverEnv(CountingEnv):
    """A person takes over in every second env step; `last` is what is reported in the last."""

    def __init__(self, last=(0.25,)):
        super().__init__(terminates_at=4)
        self._last = last

    def get_info(self):
        if self._count % 2:
            return {"intervention": False}
        return {"intervention": True, "action": self._last if self._count == 4 else [0.75]}


class HalfPolicy:
    def initial_state(self):
        return ()

    def action(self, time_step, state):
        return np.array([0.5], np.float32), state


def run(environment):
    collect = ReplaceableEnvironment(environment, lambda _: environment, SleepingWatchdog())
    no_observers = StepObservers(lambda **kwargs: [], 0, 10)
    environments = Environments(
        collect, collect, no_observers, no_observers, None, SleepingWatchdog(), InfoNumbers([])
    )
    seen = []

    def observe(time_step, action, next_time_step, state, is_intervention):
        seen.append((float(action[0]), is_intervention))
        return True

    episode = environments.run_collect_episode(HalfPolicy(), 10, observe, PhaseTimer("test"))
    return episode, seen


def test_a_worker_stores_the_action_that_was_taken():
    episode, seen = run(TakenOverEnv())
    assert seen == [(0.5, False), (0.75, True), (0.5, False), (0.25, True)]
    assert episode.numbers == {"interventions": 2 / 4}


def test_an_action_that_is_none_is_a_failure_of_the_environment():
    with pytest.raises(EnvironmentFailure, match=r"at env step 4 .* is \[7.0\], beyond"):
        run(TakenOverEnv(last=(7.0,)))


def test_an_environment_without_info_is_stepped_as_ever():
    episode, seen = run(CountingEnv(terminates_at=2))
    assert seen == [(0.5, False)] * 2 and episode.numbers == {}
