import types

import numpy as np
import pytest
from fakes import CountingEnv

from tfagents_system.collection.info_numbers import InfoNumbers
from tfagents_system.collection.rollouts import run_episode
from tfagents_system.policies.acting import RandomPolicy


def episode_of(log_info, infos):
    numbers = InfoNumbers(log_info)
    numbers.begin()
    for info in infos:
        numbers.add(info)
    return numbers.end(), numbers.new_faults()


def test_each_statistic_of_an_episode():
    log_info = ["distance", "distance:min", "distance:max", "distance:last"]
    found, faults = episode_of(log_info, [{"distance": d} for d in (3.0, 1.0, 5.0, 4.0)])
    assert found == {
        "distance_mean": (3 + 1 + 5 + 4) / 4,
        "distance_min": 1.0,
        "distance_max": 5.0,
        "distance_last": 4.0,
    }
    assert faults == []


def test_a_pattern_takes_all_keys_that_match_and_a_dict_is_a_path():
    infos = [
        {"reward_run": 1, "reward_ctrl": -0.5, "reward": {"run": 2.0}, "x": 9},
        {"reward_run": 3, "reward_ctrl": -0.5, "reward": {"run": 4.0}, "x": 9},
    ]
    found, _ = episode_of(["reward_*", "reward/*:last"], infos)
    assert found == {"reward_run_mean": 2.0, "reward_ctrl_mean": -0.5, "reward/run_last": 4.0}


def test_a_key_that_some_steps_lack_counts_in_the_others():
    found, faults = episode_of(["force"], [{}, {"force": 2}, None, "odd", {"force": 4}])
    assert (found, faults) == ({"force_mean": 3.0}, [])


@pytest.mark.parametrize(
    "value",
    [2, 2.0, np.float32(2), np.int64(2), np.array(2.0), np.array([[2]]), np.uint8(2)],
)
def test_numbers_alone_and_in_an_array_of_one_element_count(value):
    assert episode_of(["a"], [{"a": value}])[0] == {"a_mean": 2.0}


def test_a_bool_is_0_or_1():
    infos = [{"touches": touches} for touches in (True, np.bool_(False), False, True)]
    assert episode_of(["touches"], infos)[0] == {"touches_mean": 2 / 4}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (np.zeros(3), "float64 of shape (3,)"),
        (float("nan"), "nan (float)"),
        (None, "None (NoneType)"),
        ("far", "'far' (str)"),
        ([1, [2]], "[1, [2]] (list)"),
        (10**400, "(int)"),
        (1j, "1j (complex)"),
    ],
)
def test_a_named_value_that_is_no_number_is_left_out_and_told_once(value, shown):
    numbers = InfoNumbers(["a"])
    for expected in (1, 0):
        numbers.begin()
        numbers.add({"a": value})
        numbers.add({"a": 7})
        assert numbers.end() == {"a_mean": 7.0}
        faults = numbers.new_faults()
        assert [fault.shown for fault in faults] == ["LOG_INFO: a IS NOT A NUMBER"] * expected
        assert all("info['a'], which is " in f.text and shown in f.text for f in faults)


def test_what_a_pattern_leaves_out_is_only_for_the_log():
    found, faults = episode_of(["*"], [{"a": 1, "image": np.zeros((2, 2)), "name": "x"}])
    assert found == {"a_mean": 1.0}
    assert faults == [("", "log_info leaves out values that are not finite numbers: image, name.")]


def test_an_entry_that_matches_nothing_is_told_once_with_the_nearest_key():
    numbers = InfoNumbers(["distanec", "force_*", "speed"])
    for expected in (["distanec", "force_*"], []):
        numbers.begin()
        numbers.add({"distance": 1.0, "speed": 2.0, "name": "x"})
        assert numbers.end() == {"speed_mean": 2.0}
        faults = numbers.new_faults()
        assert [f.shown for f in faults] == [f"LOG_INFO: NOTHING IS CALLED {e}" for e in expected]
        if faults:
            assert faults[0].text == (
                "log_info has 'distanec', but no key of the environment's info matches; its "
                "numbers are distance, speed. Did you mean distance?"
            )


def test_an_environment_without_numbers_is_told():
    (fault,) = episode_of(["distance"], [{}])[1]
    assert fault.text.endswith("matches; it has no numbers.")


def test_other_characters_in_a_key_become_underscores_in_the_name():
    found, _ = episode_of(["*"], [{"a b,c\n": 1, "größe/x": 2, 3: 4}])
    assert found == {"a_b_c__mean": 1.0, "größe/x_mean": 2.0, "3_mean": 4.0}


class DistanceEnv(CountingEnv):
    """Reports the distance to step 3, and counts how often its info is read."""

    num_reads = 0

    def get_info(self):
        self.num_reads += 1
        return types.MappingProxyType({"distance": 3 - self._count})


def test_an_episode_has_the_numbers_of_each_env_step():
    environment = DistanceEnv(terminates_at=3)
    numbers = InfoNumbers(["distance", "distance:last", "speed"])
    for _ in range(2):
        episode = run_episode(
            environment, RandomPolicy(environment.action_spec(), 0), 10, numbers=numbers
        )
        assert episode.numbers == {"distance_mean": (2 + 1 + 0) / 3, "distance_last": 0.0}
        faults = episode.info_faults
        assert [fault.shown for fault in faults] == ["LOG_INFO: NOTHING IS CALLED speed"][
            : len(faults)
        ]
    assert list(faults) == []


def test_without_log_info_the_info_is_read_only_at_the_end():
    environment = DistanceEnv(terminates_at=3)
    episode = run_episode(
        environment, RandomPolicy(environment.action_spec(), 0), 10, numbers=InfoNumbers([])
    )
    assert (episode.numbers, episode.info_faults, environment.num_reads) == ({}, (), 1)
