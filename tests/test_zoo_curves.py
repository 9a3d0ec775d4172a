"""The zoo's curves are merged by seed, read at any number of env steps, and scored as published."""

import numpy as np
import pytest
from run_files import write_run

from zoo import curves
from zoo.curves import RANDOM_AND_TD3, Point


def test_the_tasks_of_xqc_have_curves():
    assert {"hopper", "cheetah_run", "half_cheetah_bullet_xqc"} <= set(curves.drawn())
    assert not {"half_cheetah_bullet", "cart_pole"} & set(curves.drawn())


def test_curves_of_a_task_are_read_from_its_experiments_finished_or_not(tmp_path):
    for name, returns in (("hopper_seed_1", [10, 20]), ("hopper_seed_2", [30]),
                          ("hopper_trial", [99]), ("hopper_seed_2_until_20260101", [98]),
                          ("walker2d_seed_1", [7])):  # fmt: skip
        write_run(tmp_path / name, returns)
    found = curves.points_in(tmp_path, ["hopper"])
    # write_run evaluates before, with a return of -7.
    assert sorted((p.task, p.seed, p.mean_return) for p in found) == [
        ("hopper", 1, -7.0), ("hopper", 1, (10 + 20) / 2), ("hopper", 2, -7.0), ("hopper", 2, 30.0)
    ]  # fmt: skip


def test_a_new_curve_replaces_the_whole_old_one_of_its_seed(tmp_path):
    old = [Point("hopper", seed, step, 1.0, 2.0) for seed in (1, 2) for step in (1000, 2000)]
    new = [Point("hopper", 2, 1500, 9.0, 3.0)]
    curves.write_rows(tmp_path / "curves.csv", Point._fields, curves.merged(old, new))
    assert curves.read(tmp_path / "curves.csv") == [*old[:2], *new]
    assert curves.read(tmp_path / "none.csv") == []


def test_a_return_is_interpolated_and_averaged_over_seeds():
    found = curves.curves([
        Point("hopper", 1, 1000, 10.0, 0.0), Point("hopper", 1, 3000, 30.0, 0.0),
        Point("hopper", 2, 2500, 50.0, 0.0),
    ])["hopper"]  # fmt: skip
    assert curves.return_at(2000, found) == pytest.approx(((10 + 30) / 2 + 50) / 2)
    assert curves.return_at(2600, found) is None  # seed 2 has ended


def test_scores_are_shares_of_the_way_from_random_actions_to_td3():
    random, of_td3 = RANDOM_AND_TD3["Hopper-v5"]
    half = (random + of_td3) / 2
    points = [Point("hopper", 1, 150_000, half, 0.0), Point("ant", 1, 300_000, 3942.0, 0.0),
              Point("cheetah_run", 1, 300_000, 500.0, 0.0)]  # fmt: skip
    lines = curves.scores(curves.curves(points)).splitlines()
    of_others = [line for line in lines if "as published" in line]
    assert [line for line in lines if line not in of_others] == [
        f"100,000 env steps: Hopper-v5 {half:,.0f}, TD3-normalised 0.50, seeds: 1",
        "100,000 env steps: Ant-v5 3,942, TD3-normalised 1.00, seeds: 1",
        f"100,000 env steps: mean of 2 of 5 tasks {(0.5 + 1) / 2:.2f}",
        "200,000 env steps: Ant-v5 3,942, TD3-normalised 1.00, seeds: 1",
        "200,000 env steps: mean of 1 of 5 tasks 1.00",
    ]
    of_sac = {"HalfCheetah-v5": 7596.0, "Hopper-v5": 2273.5, "Walker2d-v5": 1708.7,
              "Ant-v5": 1714.6, "Humanoid-v5": 993.8}  # fmt: skip
    shares = [(of_sac[name] - low) / (high - low) for name, (low, high) in RANDOM_AND_TD3.items()]
    assert f"200,000 env steps: mean of SAC as published {np.mean(shares):.2f}" in of_others
    assert len(of_others) == 2 * 3  # numbers of env steps, and algorithms


def test_the_picture_has_a_panel_for_each_task(tmp_path):
    points = [
        Point(task, seed, step, step / 10, 1.0)
        for task in ("hopper", "walker_walk")
        for seed in (1, 2)
        for step in (1000, 9000)
    ]
    curves.draw(curves.curves(points), tmp_path / "curves.png")
    picture = curves.plt.imread(tmp_path / "curves.png")
    height, width = picture.shape[:2]
    assert width > 1.5 * height  # two panels beside each other
    for half in np.array_split(picture[..., :3], 2, axis=1):
        is_blue = np.abs(half - np.array([0x1F, 0x77, 0xB4]) / 255).max(axis=-1) < 0.02
        assert is_blue.sum() > 50  # its lines
