"""A whole sweep of tiny runs."""

import csv

import pytest
from commands.test_train import sac
from system.tiny_run import TINY

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]


def test_a_sweep_ranks_its_trials_and_trains_none_twice(tmp_path):
    assert sac(tmp_path, "new", "cart")[0] == 0
    command = ["sweep", "cart_variables.sh", "--grid", "discount=0.9,0.99", "--set", *TINY]
    code, out, err = sac(tmp_path, *command, timeout=280)
    assert code == 0, out + err
    assert out.splitlines()[-6].endswith("_trial_1_seed_1 finished | 2 of 2 experiments")
    folder = tmp_path / "logs" / "cart_sweep"
    with (folder / "sweep.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert sorted((row["trial"], row["discount"]) for row in rows) == [("0", "0.9"), ("1", "0.99")]
    returns = [float(row["mean_return"]) for row in rows]
    assert returns == sorted(returns, reverse=True)
    assert [(row["seeds"], row["state"]) for row in rows] == 2 * [("1", "finished")]
    assert len(list(folder.glob("hparams/*/events*"))) == 2
    assert (folder / "sweep.png").stat().st_size > 1000

    logs = {path: path.stat().st_size for path in folder.glob("*.log")}
    assert len(logs) == 2
    code, _, err = sac(tmp_path, *command, timeout=120)
    assert code == 0, err
    assert {path: path.stat().st_size for path in folder.glob("*.log")} == logs
