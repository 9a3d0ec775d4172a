import dataclasses
import importlib
import json
import sys

import pytest
from replay_fakes import EpisodeStepEnv, codec_of, make_experiment
from small_disk import small_disk

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.programs.params_loader import load_run
from tfagents_system.core.state import run_spec
from tfagents_system.core.state.run_spec import as_json
from tfagents_system.data.item_layout import SINGLE, ItemLayout
from tfagents_system.data.run_views import view_of_run


@pytest.fixture
def run(tmp_path):
    return load_run(str(make_experiment(tmp_path / "exp").root))


def view_of(run, layout=SINGLE, arithmetic=None):
    environment = EpisodeStepEnv()
    specs = environment.observation_spec(), environment.action_spec()
    return view_of_run(run, *specs, codec_of(environment), layout, arithmetic)


def test_a_spec_says_what_the_run_is(run):
    view_of(run, ItemLayout(4), "int16").agree(run.paths.run_spec)
    spec = json.loads(run.paths.run_spec.read_text())
    assert (spec["seed"], spec["horizon"], spec["arithmetic"]) == (3, 10, "int16")
    assert spec["settings"]["train_batch_size"] == 4
    assert spec["observation"] == {"all": "float32 [2]"}
    assert spec["action"] == {"all": "float32 [1] from [-1.0] to [1.0]"}
    numbers = 1 + 2 + 1 + 1 + 1  # step type, observation, action, reward, discount
    columns = [["float32", [numbers]]]
    expected = {
        "length": 4,
        "is_sequence": False,
        "frame_stack": 1,
        "is_segment": False,
        "burn_in": 0,
        "n_step": 1,
        "columns": columns,
    }
    assert spec["item"] == expected  # as in version 0.2, whose runs must go on
    assert spec["files"].keys() >= {"config.json", "params.py", "replay_fakes"}


def test_a_full_disk_is_one_message_and_leaves_no_half_spec(run, monkeypatch):
    monkeypatch.setattr(run_spec, "loaded_modules", list)  # of other tests
    with small_disk(1 << 20) as disk:
        disk.fill()
        with pytest.raises(ConfigError, match="DISK FULL: run_spec.json needs .*B, 0 B free in"):
            view_of(run, arithmetic="int16").agree(disk.folder / "run_spec.json")
        assert [path.name for path in disk.folder.iterdir()] == ["filler"]


def test_a_program_with_the_same_view_agrees_and_a_worker_has_no_arithmetic(run):
    view_of(run, arithmetic="int16").agree(run.paths.run_spec)
    view_of(run, arithmetic="int16").agree(run.paths.run_spec)
    view_of(run).check(run.paths.run_spec)


def test_a_program_that_differs_is_refused_with_the_differences(run):
    view_of(run, ItemLayout(8), "int16").agree(run.paths.run_spec)
    with pytest.raises(ConfigError, match="item length is 8 in the run, 4 here. Was a file edited"):
        view_of(run, ItemLayout(4)).check(run.paths.run_spec)
    with pytest.raises(ConfigError, match='arithmetic is "int16" in the run, "float32" here'):
        view_of(run, ItemLayout(8), "float32").agree(run.paths.run_spec)
    other_seed = dataclasses.replace(view_of(run, ItemLayout(8)), seed=4)
    with pytest.raises(ConfigError, match="seed is 3 in the run, 4 here"):
        other_seed.check(run.paths.run_spec)


def test_an_edited_module_of_the_users_is_refused_and_one_that_only_one_has_is_not(
    run, tmp_path, monkeypatch
):
    monkeypatch.syspath_prepend(str(tmp_path))
    module = tmp_path / "my_edited_robot.py"
    module.write_text("MASS = 1\n")
    importlib.import_module("my_edited_robot")
    try:
        view_of(run).agree(run.paths.run_spec)
        module.write_text("MASS = 2\n")
        with pytest.raises(ConfigError, match="files my_edited_robot has another content now"):
            view_of(run).check(run.paths.run_spec)
    finally:
        del sys.modules["my_edited_robot"]
    view_of(run).check(run.paths.run_spec)


def test_a_damaged_spec_is_named(run):
    run.paths.run_spec.write_text("[]")
    with pytest.raises(ConfigError, match="run_spec.json: damaged .* run_script.sh again"):
        view_of(run).check(run.paths.run_spec)


def test_values_that_json_cannot_hold_are_named_alike_in_every_process():
    assert as_json((256, 256)) == [256, 256]
    assert as_json(sum) == "builtins.sum"
    assert as_json(EpisodeStepEnv(())) == "replay_fakes.EpisodeStepEnv"
