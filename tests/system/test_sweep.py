"""A whole sweep of tiny runs."""

import csv

import pytest
from commands.test_train import sac
from system.tiny_run import TINY

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

BINDINGS = "; ".join(f"TrainParams.{assignment}" for assignment in TINY)


def test_a_sweep_ranks_its_trials_and_trains_none_twice(tmp_path):
    assert sac(tmp_path, "new", "cart")[0] == 0
    command = ["sweep", "cart_variables.sh", "--grid", "discount=0.9,0.99"]
    code, out, err = sac(tmp_path, *command, timeout=280, SAC_GIN_BINDINGS=BINDINGS)
    assert code == 0, out + err
    folder = tmp_path / "logs" / "cart_sweep"
    with (folder / "sweep.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert sorted((row["trial"], row["discount"]) for row in rows) == [("0", "0.9"), ("1", "0.99")]
    returns = [float(row["mean_return"]) for row in rows]
    assert returns == sorted(returns, reverse=True)
    assert (folder / "sweep.png").stat().st_size > 1000

    logs = {path: path.stat().st_size for path in folder.glob("*.log")}
    assert len(logs) == 2
    code, _, err = sac(tmp_path, *command, timeout=120, SAC_GIN_BINDINGS=BINDINGS)
    assert code == 0, err
    assert {path: path.stat().st_size for path in folder.glob("*.log")} == logs
