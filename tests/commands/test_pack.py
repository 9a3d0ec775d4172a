"""sac pack, and the evaluation of what it has packed where the user's files are gone."""

import json
import pathlib
import shutil
import sys
import tarfile

import pytest

from tfagents_system.commands.pack import pack
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.process.guest import GUEST
from tfagents_system.core.process.user_modules import UserModule
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.state.running import begin_run
from tfagents_system.evaluation.saved_experiment import (
    load_saved_params,
    naming_missing_packages,
)

PARAMS = """
import arm_lengths
from tfagents_system.train_params_base import TrainParamsBase

class TrainParams(TrainParamsBase):
    num_iter = arm_lengths.ITERATIONS

    def env_ctor(self, *args, seed=None, **kwargs):
        return None
"""


@pytest.fixture
def paths(tmp_path, monkeypatch) -> ExperimentPaths:
    """An experiment with two policies and a replay buffer; the user's files are next to logs/."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "arm_lengths", raising=False)
    home = tmp_path / "home"
    paths = ExperimentPaths(home / "logs/arm")
    for step in (50, 100):
        paths.policy_checkpoint(step).mkdir(parents=True)
        (paths.policy_checkpoint(step) / "weights").write_text("w")
    (paths.root / "checkpoints/50").mkdir(parents=True)
    for file in (home / "arm_params.py", paths.params):
        file.write_text(PARAMS)
    module = home / "arm_lengths.py"
    module.write_text("ITERATIONS = 7\n")
    paths.config.write_text('{"horizon": 20}')
    facts = {"seed": 1, "gin_bindings": [], "params_dir": str(home), "params_name": "arm_params.py",
             "packages": {"arm-lengths": "1.4.2"}}  # fmt: skip
    paths.provenance.write_text(json.dumps(facts))
    begin_run(paths, [UserModule("arm_lengths", str(module), str(module))])
    return paths


def moved(paths: ExperimentPaths, file: pathlib.Path, folder: pathlib.Path) -> ExperimentPaths:
    """Unpacks the file in another folder, and removes everything else."""
    with tarfile.open(file) as archive:
        archive.extractall(folder)
    shutil.rmtree(paths.root.parents[1])
    return ExperimentPaths(folder / "arm")


def test_a_pack_has_what_evaluation_needs_and_works_where_the_originals_are_gone(
    paths, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    pack(paths.root)
    assert "tar -xzf arm.tar.gz && sac eval arm" in capsys.readouterr().out
    there = moved(paths, tmp_path / "arm.tar.gz", tmp_path / "there")
    assert [path.name for path in there.policy_checkpoints()] == ["policy_checkpoint_0000000100"]
    assert not there.checkpoints.exists()
    assert load_saved_params(there, None, {"horizon": 20}).num_iter == 7


@pytest.mark.parametrize("place", ["current folder", "experiment"])
def test_other_modules_may_be_in_the_current_folder_and_in_the_experiment(
    paths, tmp_path, monkeypatch, place
):
    pack(paths.root, tmp_path / "x.tar.gz")
    there = moved(paths, tmp_path / "x.tar.gz", tmp_path / "there")
    shutil.rmtree(there.running)
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    folder = here if place == "current folder" else there.root
    (folder / "arm_lengths.py").write_text("ITERATIONS = 9\n")
    assert load_saved_params(there, None, {"horizon": 20}).num_iter == 9


def test_a_missing_module_is_named_with_the_version_of_the_training(paths, tmp_path):
    pack(paths.root, tmp_path / "x.tar.gz")
    there = moved(paths, tmp_path / "x.tar.gz", tmp_path / "there")
    shutil.rmtree(there.running)
    trained = f"{there.root} was trained with it: install arm-lengths==1.4.2 in this Python "
    with pytest.raises(ConfigError) as raised:
        load_saved_params(there, None, {"horizon": 20})
    assert str(raised.value).startswith(
        f"{there.params}:2: No module named 'arm_lengths'. {trained}"
    )
    with pytest.raises(ConfigError) as raised, naming_missing_packages(there):
        with GUEST.visit("TrainParams.env_ctor"):
            import arm_lengths  # noqa: F401
    place, _, rest = str(raised.value).partition(": ")
    assert place.startswith(f"{__file__}:") and f"'arm_lengths'. {trained}" in rest


def test_an_experiment_without_a_policy_is_not_packed(paths, tmp_path):
    shutil.rmtree(paths.policies)
    with pytest.raises(ConfigError, match="has no checkpoint yet"):
        pack(paths.root, tmp_path / "x.tar.gz")
    assert not list(tmp_path.glob("*x.tar.gz*"))


def test_a_file_that_cannot_be_read_is_named(paths, tmp_path, monkeypatch):
    def refuse(archive, path, name):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("tarfile.TarFile.add", refuse)
    with pytest.raises(ConfigError, match="Cannot pack .*config.json: Permission denied."):
        pack(paths.root, tmp_path / "x.tar.gz")
    assert not list(tmp_path.glob("*x.tar.gz*"))


@pytest.mark.parametrize("damage", ["config", "params", "ending"])
def test_what_could_not_be_evaluated_is_not_packed(paths, tmp_path, damage):
    output, message = tmp_path / "x.tar.gz", "has no params.py, which sac eval needs"
    if damage == "config":
        paths.config.write_text("{")
        message = "config.json: not valid JSON"
    elif damage == "params":
        paths.params.unlink()
    else:
        output, message = tmp_path / "x.zip", "expected a file with the ending .tar.gz or .tgz"
    with pytest.raises(ConfigError, match=message):
        pack(paths.root, output)
    assert not list(tmp_path.glob("*x.*"))
