"""TensorBoard values by the tags of ML-Agents."""

import pytest
from records.test_event_log import events

from tfagents_system.core.errors import ConfigError
from tfagents_system.records.event_log import EventLog
from tfagents_system.records.mlagents_tags import mlagents_scalars


def test_a_workers_values_are_of_the_environment():
    assert mlagents_scalars(500, {"collect/episode_return": 3.0, "collect/episode_length": 7}) == {
        "Environment/Cumulative Reward": 3.0,
        "Policy/Extrinsic Reward": 3.0,
        "Environment/Episode Length": 7,
        "Step": 500.0,
        "Is Training": 1.0,
    }


def test_the_critics_loss_is_shared_among_those_of_mlagents():
    found = mlagents_scalars(1, {"learner/critic_loss": 5.0, "learner/actor_loss": -2.0})
    assert found == {
        "Losses/Policy Loss": -2.0,
        "Losses/Q1 Loss": 5.0 / 2,
        "Losses/Q2 Loss": 5.0 / 2,
        "Losses/Value Loss": 5.0 / 2,
    }
    of_values = {"learner/critic_loss": 5.0, "learner/state_value_loss": 0.25}
    assert mlagents_scalars(1, of_values)["Losses/Value Loss"] == 0.25


def test_values_of_streams_and_learning_rates_have_the_tags_of_both_generations():
    values = {"learner/gail_value": 1.5, "learner/rnd_value": 0.5}
    assert mlagents_scalars(1, values | {"learner/actor_learning_rate": 3e-4}) == {
        "Policy/Gail Value": 1.5,
        "Policy/GAIL Value Estimate": 1.5,
        "Policy/Rnd Value": 0.5,
        "Policy/Learning Rate": 3e-4,
    }


def test_the_extrinsic_value_is_of_the_environments_rewards_alone():
    of_both = {"learner/q_value": (1 + 10) / 2, "learner/rnd_value": 10.0}
    tags = ("Policy/Extrinsic Value", "Policy/Extrinsic Value Estimate")
    assert mlagents_scalars(1, {"learner/q_value": 4.0}) == dict.fromkeys(tags, 4.0)
    named = mlagents_scalars(1, of_both | {"learner/extrinsic_value": 1.0})
    assert named == dict.fromkeys(tags, 1.0) | {"Policy/Rnd Value": 10.0}
    assert mlagents_scalars(1, of_both) == {"Policy/Rnd Value": 10.0}


def test_entropy_coefficients_are_those_of_their_kind_where_an_action_has_both():
    tags = ("Entropy Coeff", "Continuous Entropy Coeff", "Discrete Entropy Coeff")
    of_one_kind = mlagents_scalars(1, {"learner/alpha": 0.5})
    of_both = mlagents_scalars(
        1, {"learner/continuous_alpha": 0.2, "learner/discrete_alpha": 0.8, "learner/alpha": 0.5}
    )
    assert of_one_kind == {f"Policy/{tag}": 0.5 for tag in tags}
    values = zip(tags, (0.5, 0.2, 0.8), strict=True)
    assert of_both == {f"Policy/{tag}": value for tag, value in values}


def test_lessons_count_from_0_and_other_values_have_no_such_tag():
    assert mlagents_scalars(1, {"lesson/gap": 3, "learner/td_target": 1.0}) == {
        "Environment/Lesson Number/gap": 3 - 1
    }


@pytest.mark.parametrize("value, has", [("1", True), ("0", False), ("auto", False), ("", False)])
def test_the_variable_turns_them_on(value, has, tmp_path, monkeypatch):
    monkeypatch.setenv("SAC_MLAGENTS_TAGS", value)
    EventLog(tmp_path).write(4, {"learner/alpha": 0.5, "own": 1.0})
    expected = [(4, "learner/alpha", 0.5), (4, "own", 1.0)]
    coefficients = ("Entropy Coeff", "Continuous Entropy Coeff", "Discrete Entropy Coeff")
    named = [(4, f"Policy/{tag}", 0.5) for tag in coefficients]
    assert events(tmp_path) == expected + named * has


def test_another_value_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("SAC_MLAGENTS_TAGS", "yes")
    with pytest.raises(ConfigError, match="SAC_MLAGENTS_TAGS is 'yes'; expected auto, 0 or 1"):
        EventLog(tmp_path)
