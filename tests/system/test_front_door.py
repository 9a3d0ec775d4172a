"""`sac` from an empty folder of the user's: train, resume, list, evaluate, prune."""

import json
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import venv

import numpy as np
import pytest
import tensorflow as tf
from commands.test_train import REPO, sac
from system.tiny_run import TINY

from tfagents_system.core.state.paths import ExperimentPaths

pytestmark = pytest.mark.system


def test_a_project_of_ones_own_trains_where_the_user_is(trained_cart, tmp_path):
    folder, err = trained_cart
    assert "-m tfagents_system eval logs/cart" in err
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    paths = ExperimentPaths(tmp_path / "logs" / "cart")
    assert json.loads(paths.finished.read_text())["num_iter"] == 2

    code, out, _ = sac(tmp_path, "list")
    assert code == 0
    header, row = (line.split() for line in out.splitlines())
    assert (header[0], row[:2]) == ("experiment", ["cart", "finished"])
    assert row[2] == str(2 * 20)

    code, out, err = sac(tmp_path, "eval", "logs/cart", "--num-episodes=1", timeout=90)
    assert code == 0, err
    assert "policy_checkpoint_0000000040" in out
    film = paths.root / "videos/policy_checkpoint_0000000040/episode_0.mp4"
    assert film.stat().st_size > 1000

    code, _, err = sac(tmp_path, "train", "cart_variables.sh")
    assert code == 78 and "is finished: it has trained its 2 iterations" in err
    code, _, err = sac(tmp_path, "train", "cart_variables.sh", "--extend=1", timeout=150)
    assert code == 0, err
    assert json.loads(paths.finished.read_text())["num_iter"] == 2 + 1

    _check_second_starts_where_first_ended(tmp_path, paths)

    before = sorted(path.name for path in paths.checkpoints.glob("0*"))
    policies = [path.name for path in paths.policy_checkpoints()]
    prune = ["prune", "logs/cart", "--keep_policies=1"]
    code, out, err = sac(tmp_path, *prune, "--dry_run")
    assert (code, err) == (0, "") and out.endswith("would be free.\n")
    assert sorted(path.name for path in paths.checkpoints.glob("0*")) == before
    code, out, err = sac(tmp_path, *prune)
    assert (code, err) == (0, "") and out.endswith("are free.\n")
    assert [path.name for path in paths.checkpoints.glob("0*")] == before[-1:]
    assert [path.name for path in paths.policy_checkpoints()] == policies[-1:]


def _check_second_starts_where_first_ended(folder, first):
    """Trains with learning rates that change no weight: the policy must be that of `first`."""
    code, _, err = sac(folder, "train", "cart_variables.sh", "--initialize-from=logs/cart",
                       "--force_new")  # fmt: skip
    assert code == 78 and "--force_new would rename logs/cart" in err
    rates = [f"{name}_learning_rate=1e-30" for name in ("actor", "critic", "alpha")]
    code, out, err = sac(folder, "train", "cart_variables.sh", "--name=second",
                         "--initialize-from=logs/cart", "--set", *TINY[1:], "num_iter=1", *rates,
                         timeout=150)  # fmt: skip
    assert code == 0, err
    weights = first.checkpoints / f"{2 * 20 + 20:010d}"
    assert f"It starts with the weights of {weights}." in out
    second = ExperimentPaths(folder / "logs" / "second")
    assert [path.name for path in second.policy_checkpoints()] == ["policy_checkpoint_0000000020"]
    first_variables, variables = (
        tf.train.load_checkpoint(str(paths.policy_checkpoints()[-1] / "variables/variables"))
        for paths in (first, second)
    )
    names = [name for name in variables.get_variable_to_shape_map() if "model_variables" in name]
    assert names
    for name in names:
        np.testing.assert_allclose(  # Adam's steps are below 1e-29
            variables.get_tensor(name), first_variables.get_tensor(name), rtol=0, atol=1e-25
        )


@pytest.fixture
def installed(tmp_path):
    """The Python of an environment into which a copy of the project was installed."""
    ignored = shutil.ignore_patterns(".*", "build", "logs", "*.egg-info")
    shutil.copytree(REPO, tmp_path / "checkout", ignore=ignored)
    venv.create(tmp_path / "venv")
    (site_packages,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    (site_packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    python = tmp_path / "venv/bin/python"
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index",
         "--no-deps", "--no-build-isolation", tmp_path / "checkout"], check=True, timeout=100,
    )  # fmt: skip
    shutil.rmtree(tmp_path / "checkout")
    where = [python, "-c", "import tfagents_system; print(tfagents_system.__file__)"]
    found = subprocess.run(where, cwd=tmp_path, env={}, capture_output=True, text=True, check=True)
    assert pathlib.Path(found.stdout).is_relative_to(site_packages)
    return python


def test_an_environment_trains_by_its_name_with_two_seeds_and_anew(tmp_path, installed):
    logs = tmp_path / "logs"
    (logs / "pendulum_seed_2" / "earlier").mkdir(parents=True)
    code, out, err = sac(tmp_path, "train", "--env=gym:Pendulum-v1", "--seed", "1", "2",
                         "--force_new", "--algo=td3", "--set", *TINY[1:], "num_iter=1", timeout=200,
                         python=installed)  # fmt: skip
    assert code == 0, err
    assert "pendulum_params.py, pendulum_config.json, pendulum_variables.sh" in out
    (kept,) = logs.glob("pendulum_seed_2_until_*/earlier")
    assert f"The earlier logs/pendulum_seed_2 is now logs/{kept.parent.name}." in out
    for seed in (1, 2):
        paths = ExperimentPaths(logs / f"pendulum_seed_{seed}")
        assert json.loads(paths.finished.read_text())["num_iter"] == 1
        assert json.loads(paths.provenance.read_text())["seed"] == seed
        assert "TrainParams.algorithm = 'td3'\n" in paths.gin.read_text()
        assert list(paths.eval_summaries.glob("events.*"))  # the evaluation of all workers
