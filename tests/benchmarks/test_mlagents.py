import pathlib

import pytest

from benchmarks.peers.mlagents import (
    HEADER,
    MEASURED,
    Episode,
    result_of,
    steps_to_criterion,
    table,
    write_demo,
)
from benchmarks.peers.mlagents_settings import SIMPLE, Criterion, configuration_of, criterion_of
from tfagents_system.demonstrations.files import read_demonstrations

BAD, GOOD = -1.0, 1.0
OF_TWO = Criterion(0.9, num_episodes=2)


def episodes(*returns):
    """Returns episodes of 10 env steps, which take 2 seconds each."""
    return [Episode(10 * n, value, 100.0 + 2 * n) for n, value in enumerate(returns, start=1)]


def rows(*values):
    return [dict(zip(HEADER, map(str, row), strict=True)) for row in values]


def test_the_criterion_is_met_by_the_mean_of_the_last_episodes():
    assert steps_to_criterion(episodes(BAD, GOOD, GOOD, GOOD), OF_TWO) == 10 * 3
    assert steps_to_criterion(episodes(BAD, GOOD), OF_TWO) is None
    assert steps_to_criterion([], OF_TWO) is None


def test_the_criterion_is_not_met_by_chance():
    lucky = [GOOD, GOOD, *[BAD, GOOD] * 10]
    assert steps_to_criterion(episodes(*lucky, GOOD, GOOD), OF_TWO) == 10 * (len(lucky) + 1)


def test_a_result_counts_from_the_first_episode_to_the_last():
    last_return = (0.5 + GOOD) / 2
    assert result_of(episodes(BAD, 0.5, GOOD), OF_TWO) == (30, None, last_return, False, 20 / 4)
    assert result_of(episodes(BAD), OF_TWO) == (10, None, None, False, None)


def test_the_table_has_each_seed_and_the_means():
    def row(contestant, seed, part, steps, secs):
        return contestant, "continuous", seed, part, 1000, steps, 1.0, True, 50, secs

    lines = table(
        rows(
            row("ML-Agents", 1, "start", "", 3.0), row("ours", 1, "start", "", 2.0),
            row("ML-Agents", 1, "training", 500, 10.0), row("ours", 1, "training", 400, 4.0),
            row("ML-Agents", 2, "training", 300, 20.0), row("ours", 2, "training", 160, 6.0),
        )
    ).splitlines()  # fmt: skip
    ratio = (400 + 160) / (500 + 300)
    assert lines[2:] == [f"| continuous | 500, 300 | 400, 160 | {ratio:.2f} | 15, 3 | 5, 2 |  |  |"]


def test_a_seed_that_missed_the_criterion_has_no_ratio():
    (line,) = table(
        rows(
            ("ML-Agents", "ball", 1, "training", 1000, "", 1.0, False, 50, 10.0),
            ("ours", "ball", 1, "training", 1000, 70, 1.0, True, 200, 4.0),
        )
    ).splitlines()[2:]
    assert line == "| ball | never | 70 |  | 10 | 4 | 50 | 200 |"


@pytest.mark.parametrize("task", MEASURED)
def test_each_task_has_a_criterion_and_a_configuration_of_sac(task):
    assert criterion_of(task).threshold > 0
    (section,) = configuration_of(task)["behaviors"].values()
    assert section["trainer_type"] == "sac"


def test_small_tasks_have_the_settings_of_the_tests_of_ml_agents():
    sections = {task: configuration_of(task)["behaviors"][SIMPLE] for task in MEASURED[:-2]}
    fill = {task: own["hyperparameters"]["buffer_init_steps"] for task, own in sections.items()}
    assert fill == {
        "continuous": 100, "discrete": 100, "continuous 2": 2000, "discrete 2": 2000,
        "image": 100, "nature_cnn image": 0, "hybrid 1 1": 0, "discrete memory": 1000,
        "gail": 100, "gail image": 100,
    }  # fmt: skip
    lengths = {task: section["max_steps"] for task, section in sections.items()}
    assert lengths == {
        "continuous": 1000, "discrete": 1000, "continuous 2": 3000, "discrete 2": 3000,
        "image": 1000, "nature_cnn image": 100, "hybrid 1 1": 8000, "discrete memory": 4000,
        "gail": 500, "gail image": 500,
    }  # fmt: skip


def test_what_is_imitated_has_demonstrations_in_place_of_the_reward():
    demo = pathlib.Path("Simple.demo")
    section = configuration_of("gail", demo)["behaviors"][SIMPLE]
    assert section["reward_signals"] == {"gail": {"encoding_size": 32, "demo_path": str(demo)}}
    assert section["behavioral_cloning"] == {"demo_path": str(demo), "steps": 1000}


def test_the_demonstrations_of_both_trainers_are_the_same(tmp_path):
    for task, shape in (("gail", (1,)), ("gail image", (3, 20, 20))):
        (tmp_path / task).mkdir()
        episodes = read_demonstrations(write_demo(task, tmp_path / task))
        assert [episode.rewards.sum() for episode in episodes] == pytest.approx([1.06 - 0.04] * 20)
        ours = read_demonstrations(tmp_path / task / "demonstrations")
        for theirs, own in zip(episodes, ours, strict=True):
            seen = theirs.observations["observation/observation"]
            assert seen.shape == (5 + 1, *shape)  # images are [C, H, W]
            assert set(seen.ravel()) == set(own.observations["observation"].ravel())
            (acted,), (acted_by_us,) = theirs.actions.values(), own.actions.values()
            assert acted.ravel().tolist() == acted_by_us.tolist()
