import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest
from report_fakes import learner_report, write_report
from small_disk import small_disk

from tfagents_system.core.checkout import PROJECT, version
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.variables import Settings
from tfagents_system.core.state.files import read_json
from tfagents_system.core.state.incarnation import CORE, Claims, Fence
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.state.provenance import StartRecord
from tfagents_system.core.state.running import is_finished, unproven_bindings
from tfagents_system.launch.experiment import folder as experiment
from tfagents_system.launch.local.run_share import Share, run_share, set_up

PARAMS = """
from tfagents_system.train_params_base import TrainParamsBase
import my_robot

class TrainParams(TrainParamsBase):
    def env_ctor(self): return my_robot.Env()
"""


@pytest.fixture
def project(tmp_path, monkeypatch) -> pathlib.Path:
    """A working folder with a config and a params file beside a module it imports."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "params.py").write_text(PARAMS)
    (tmp_path / "mine" / "my_robot.py").touch()
    (tmp_path / "c.json").write_text('{"horizon": 200, "robot": {"mass": 1, "legs": 4}}')
    return tmp_path


def run_prepare(open_because: str | None = None, **variables: str) -> ExperimentPaths:
    required = {"SAC_EXP_NAME": "e", "SAC_PARAMS": "mine/params.py", "SAC_CONFIG": "c.json"}
    changes = {f"SAC_{name}": value for name, value in variables.items()}
    settings = Settings.from_environ(required | changes)
    set_up(settings, Share("local"), open_because)
    return ExperimentPaths(settings.exp_dir)


def accept(paths: ExperimentPaths) -> None:
    """Does what the learner does after the first train step of a start."""
    bindings = read_json(paths.running_bindings)
    fence = Fence.of_core(paths, Claims(paths.incarnations).claim(CORE))
    StartRecord(paths, bindings, "float32", fence).has_trained()


def provenance_of(paths: ExperimentPaths) -> dict:
    return json.loads(paths.provenance.read_text())


@pytest.fixture
def resumable(project, monkeypatch) -> ExperimentPaths:
    """An experiment whose first start has ended: this process no longer holds its lock."""
    monkeypatch.setattr(experiment, "take_lock", lambda *arguments: -1)
    monkeypatch.setattr("tfagents_system.launch.local.prepare.take_lock", lambda *arguments: -1)
    paths = run_prepare(SEED="7", GIN_BINDINGS="TrainParams.num_iter = 10")
    paths.episodes.mkdir()
    (paths.episodes / "collect_0.csv").write_text("worker,iteration\n0,0\n")
    return paths


def test_first_start_writes_the_whole_folder(project):
    paths = run_prepare(SEED="7", GIN_BINDINGS="TrainParams.num_iter = 10; A.b = 'c'")
    assert paths.config.read_text() == (project / "c.json").read_text()
    assert paths.params.read_text() == PARAMS
    assert paths.running_params.read_text() == PARAMS
    assert paths.running_config.read_text() == paths.config.read_text()
    provenance = provenance_of(paths)
    assert provenance["seed"] == 7
    assert provenance["gin_bindings"] == ["TrainParams.num_iter = 10", "A.b = 'c'"]
    assert provenance["params_dir"] == str(project / "mine")
    assert provenance["packages"]["numpy"]
    assert provenance["version"] == version()
    assert set(provenance["cpus"]) == {path.name for path in paths.services.iterdir()}
    assert [path.name for path in (project / "logs").iterdir()] == ["e"]


def git(*arguments: str) -> str:
    command = ["git", "-c", "user.name=n", "-c", "user.email=e@example.com", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_provenance_has_the_commit_and_the_changes_of_the_params_files_repository(project):
    cpu_model = provenance_of(run_prepare())["cpu_model"]
    assert f": {cpu_model}\n" in pathlib.Path("/proc/cpuinfo").read_text() or cpu_model is None
    git("init", "-q")
    git("add", "mine")
    git("commit", "-q", "-m", "mine")
    commit = git("rev-parse", "HEAD")
    clean = run_prepare(EXP_NAME="clean")
    assert provenance_of(clean)["params_git_hash"] == commit
    header = f"# git diff HEAD of the repository of the params file, {commit}-dirty\n"
    assert not clean.git_diff.exists() or header not in clean.git_diff.read_text()
    (project / "mine" / "my_robot.py").write_text("LEGS = 4\n")
    dirty = run_prepare(EXP_NAME="dirty")
    assert provenance_of(dirty)["params_git_hash"] == f"{commit}-dirty"
    assert f"{header}diff --git " in dirty.git_diff.read_text()
    assert dirty.git_diff.read_text().endswith("+LEGS = 4\n")
    (project / "mine" / "my_robot.py").write_text("LEGS = 4\n" * 200_000)
    cut = run_prepare(EXP_NAME="cut").git_diff
    assert cut.read_text().endswith("\n# cut here: there are more than 1000000 bytes\n")
    assert cut.stat().st_size < 2 * 1_000_000 + 1000


@pytest.mark.parametrize(
    ("open_because", "line"),
    [(None, "Network: private, "), ("no such thing", "Network: open, .* \\(no such thing\\)\\.")],
)
def test_last_line_says_who_can_connect(project, capsys, open_because, line):
    run_prepare(open_because)
    assert re.match(line, capsys.readouterr().out.splitlines()[-1])


def test_start_names_attributes_that_may_be_meant_as_published_ones(project, capsys):
    with (project / "mine" / "params.py").open("a") as file:
        file.write("    encoder_learning_rate = 1e-4\n")
    run_prepare()
    line = len(PARAMS.splitlines()) + 1
    assert (
        f"Note: mine/params.py:{line}: TrainParams.encoder_learning_rate counts as an attribute "
        "of your own; the nearest published name is "
    ) in capsys.readouterr().out


def test_fresh_seeds_differ(project):
    assert len({provenance_of(run_prepare(EXP_NAME=f"e{k}"))["seed"] for k in range(3)}) == 3


def test_second_start_is_refused_and_changes_nothing(project):
    paths = run_prepare()
    before = {path: path.stat().st_mtime_ns for path in paths.root.rglob("*")}
    with pytest.raises(ConfigError, match="logs/e is in use by another run .process .* since .*"):
        run_prepare(GIN_BINDINGS="TrainParams.num_iter = 20")
    assert before == {path: path.stat().st_mtime_ns for path in paths.root.rglob("*")}


def test_failure_while_writing_leaves_no_folder(project, monkeypatch):
    def fail(*args):
        raise OSError("No space left on device")

    monkeypatch.setattr(experiment.Provenance, "write", fail)
    with pytest.raises(OSError, match="No space left"):
        run_prepare()
    assert list((project / "logs").iterdir()) == []


def test_a_full_disk_is_one_message_and_leaves_no_folder(project, monkeypatch, capsys):
    for name, value in (("EXP_NAME", "e"), ("PARAMS", "mine/params.py"), ("CONFIG", "c.json")):
        monkeypatch.setenv(f"SAC_{name}", value)
    monkeypatch.setattr("tfagents_system.launch.local.run_share.signal.signal", lambda *args: None)
    with small_disk(1 << 20) as disk:
        (project / "logs").symlink_to(disk.folder)
        disk.fill()
        with pytest.raises(SystemExit) as end:
            run_share("local")
        assert end.value.code == 1
        assert [path.name for path in disk.folder.iterdir()] == ["filler"]
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("run_script.sh: [Errno 28] No space left on device")
    assert second == "DISK FULL: experiment does not fit, 0 B free in logs"


STOPPED_WHILE_WRITING = """
import os, shutil
from tfagents_system.launch.local import run_share

def stop(source, target):
    os.kill(os.getpid(), {number})

shutil.copyfile = stop
run_share.run_share("local")
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_while_writing_is_silent_and_leaves_no_folder(project, number):
    variables = {"SAC_EXP_NAME": "e", "SAC_PARAMS": "mine/params.py", "SAC_CONFIG": "c.json"}
    end = subprocess.run(
        [sys.executable, "-c", STOPPED_WHILE_WRITING.format(number=int(number))],
        env=os.environ | variables | {"PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (end.returncode, end.stderr) == (128 + number, "")
    assert list((project / "logs").iterdir()) == []


def test_empty_folder_counts_as_new(project):
    (project / "logs" / "e").mkdir(parents=True)
    assert run_prepare().provenance.exists()


def test_a_link_to_an_empty_folder_is_refused_and_nothing_is_written_there(project):
    (project / "disk").mkdir()
    (project / "logs").mkdir()
    (project / "logs/e").symlink_to(project / "disk")
    with pytest.raises(ConfigError, match="logs/e is a link to .*disk, where no experiment is"):
        run_prepare()
    assert list((project / "disk").iterdir()) == []


def test_folder_of_something_else_is_refused(project):
    (project / "logs" / "e").mkdir(parents=True)
    (project / "logs" / "e" / "notes.txt").touch()
    with pytest.raises(ConfigError, match="logs/e cannot be resumed: it has no config.json"):
        run_prepare()


def test_resume_keeps_seed_and_files_and_names_what_differs(project, resumable, capsys):
    (project / "c.json").write_text('{"horizon": 100, "robot": {"mass": 1}, "wind": 3}')
    (project / "mine" / "params.py").write_text(PARAMS + "# changed\n")
    capsys.readouterr()
    run_prepare(SEED="8", GIN_BINDINGS="TrainParams.discount = 0.9; TrainParams.num_iter = 20")
    out = capsys.readouterr().out
    assert "c.json differs in horizon, robot.legs, wind; the run keeps its own values." in out
    assert "To change them, edit logs/e/config.json." in out
    assert "mine/params.py differs; the run keeps its own. To change it, edit logs/e/params" in out
    assert "SAC_SEED is 8; the run keeps its seed 7." in out
    assert ("gin bindings in force: TrainParams.discount = 0.9; TrainParams.num_iter = 20\n") in out
    provenance = provenance_of(resumable)
    assert provenance["seed"] == 7 and len(provenance["started_at"]) == 1
    assert provenance["gin_bindings"] == ["TrainParams.num_iter = 10"]
    new = ["TrainParams.discount = 0.9", "TrainParams.num_iter = 20"]
    assert read_json(resumable.running_bindings) == new  # of each name, the last one
    assert unproven_bindings(resumable) == new  # until the learner has trained with them
    accept(resumable)
    assert unproven_bindings(resumable) == []
    run_prepare(GIN_BINDINGS="TrainParams.num_iter = 10")
    last = ["TrainParams.discount = 0.9", "TrainParams.num_iter = 10"]
    assert read_json(resumable.running_bindings) == last
    assert resumable.params.read_text() == PARAMS
    assert json.loads(resumable.config.read_text())["horizon"] == 200


def test_a_start_changes_nothing_of_the_experiment_before_the_learner_has_trained(resumable):
    def contents():
        return {path: path.read_bytes() for path in resumable.root.iterdir() if path.is_file()}

    accept(resumable)
    resumable.finished.write_text('{"num_iter": 10}')
    before = contents()
    run_prepare(GIN_BINDINGS="TrainParams.num_iter = 20", DETERMINISTIC="1")
    assert contents() == before
    assert not is_finished(resumable)  # for the programs of this start
    accept(resumable)
    assert not resumable.finished.exists()
    after = provenance_of(resumable)
    assert len(after["started_at"]) == 2 and after["deterministic"]
    assert after["gin_bindings"] == ["TrainParams.num_iter = 20"]


def test_starts_that_left_no_episode_and_no_checkpoint_do_not_count(resumable):
    (first,) = provenance_of(resumable)["started_at"]
    (resumable.episodes / "collect_0.csv").write_text("worker,iteration\n")
    run_prepare()
    accept(resumable)
    assert len(provenance_of(resumable)["started_at"]) == 1
    (resumable.checkpoints / "0000000005").mkdir(parents=True)
    run_prepare()
    accept(resumable)
    assert len(provenance_of(resumable)["started_at"]) == 2


def test_a_mistake_in_what_was_submitted_can_be_corrected_by_the_same_command(resumable, capsys):
    (resumable.episodes / "collect_0.csv").unlink()  # the learner never began
    pathlib.Path("mine/params.py").write_text(f"{PARAMS}    num_iter = \n")
    before = contents_of(resumable.root)
    with pytest.raises(ConfigError, match="invalid syntax"):
        run_prepare()
    assert contents_of(resumable.root) == before
    corrected = f"{PARAMS}    num_iter = 5\n"
    pathlib.Path("mine/params.py").write_text(corrected)
    pathlib.Path("c.json").write_text('{"horizon": 100}')
    run_prepare(GIN_BINDINGS="TrainParams.discount = 0.9")
    assert resumable.params.read_text() == corrected
    assert json.loads(resumable.running_config.read_text()) == {"horizon": 100}
    record = provenance_of(resumable)
    assert (record["seed"], record["gin_bindings"]) == (7, ["TrainParams.discount = 0.9"])
    assert "so mine/params.py is copied again." in capsys.readouterr().out

    resumable.params.write_text(f"{PARAMS}    num_iter = 6\n")  # where the run's own is edited
    pathlib.Path("mine/params.py").write_text(f"{PARAMS}    num_iter = 7\n")
    run_prepare()
    assert "num_iter = 6" in resumable.params.read_text()


def test_a_job_that_starts_later_runs_what_was_submitted(resumable, monkeypatch):
    (resumable.episodes / "collect_0.csv").unlink()
    pathlib.Path("mine/params.py").write_text(f"{PARAMS}    num_iter = 5\n")
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    run_prepare()
    assert resumable.params.read_text() == PARAMS


def test_a_new_experiment_copies_the_weights_it_starts_from_and_a_resumed_one_keeps_its_own(
    project, monkeypatch, capsys
):
    monkeypatch.setattr(experiment, "take_lock", lambda *arguments: -1)
    monkeypatch.setattr("tfagents_system.launch.local.prepare.take_lock", lambda *arguments: -1)
    source = project / "logs/first/policies/checkpoints/policy_checkpoint_0000000005"
    (source / "variables").mkdir(parents=True)
    (source / "variables/variables.index").write_text("weights")
    weights = f"logs/first:{source.name}"
    paths = run_prepare(INITIALIZE_FROM=weights)
    assert (paths.initial_weights / "variables/variables.index").read_text() == "weights"
    assert provenance_of(paths)["initialized_from"] == str(source)
    run_prepare(INITIALIZE_FROM=weights)
    assert provenance_of(paths)["initialized_from"] == str(source)
    assert "SAC_INITIALIZE_FROM" not in capsys.readouterr().out

    run_prepare(EXP_NAME="other")
    run_prepare(EXP_NAME="other", INITIALIZE_FROM=weights)
    assert f"SAC_INITIALIZE_FROM is {weights}: for new experiments" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="logs/frist: no such experiment folder. Did you mean"):
        run_prepare(EXP_NAME="third", INITIALIZE_FROM="logs/frist")
    assert not (project / "logs/third").exists()


def test_resume_with_the_same_command_says_nothing_more(resumable, capsys):
    capsys.readouterr()
    run_prepare(SEED="7", GIN_BINDINGS="TrainParams.num_iter = 10")
    assert capsys.readouterr().out.splitlines()[:2] == [
        "Resuming logs/e, seed 7.",
        "  gin bindings in force: TrainParams.num_iter = 10",
    ]


def test_each_start_runs_with_the_files_as_they_are_then(resumable):
    resumable.params.write_text(PARAMS + "# edited\n")
    resumable.config.write_text('{"horizon": 100}')
    assert resumable.running_params.read_text() == PARAMS
    run_prepare()
    assert resumable.running_params.read_text() == PARAMS + "# edited\n"
    assert resumable.running_config.read_text() == '{"horizon": 100}'
    assert [p.name for p in resumable.root.iterdir() if "running" in p.name] == ["running"]


def test_resume_validates_the_saved_files(resumable):
    resumable.config.write_text('{"horizon": -1}')
    with pytest.raises(ConfigError, match="logs/e/config.json: horizon is -1"):
        run_prepare()


def test_resume_without_the_users_files_goes_on_and_says_so(project, resumable, capsys):
    (project / "c.json").unlink()
    (project / "mine" / "params.py").unlink()
    run_prepare()
    out = capsys.readouterr().out
    assert "The run keeps its own logs/e/config.json. (c.json: cannot read" in out
    assert "There is no mine/params.py; the run keeps its own logs/e/params.py." in out


def test_finished_experiment_continues_only_for_more_iterations(resumable):
    resumable.finished.write_text('{"num_iter": 10}')
    with pytest.raises(ConfigError, match="finished: it has trained its 10 iter.* --extend 10 "):
        run_prepare(GIN_BINDINGS="TrainParams.num_iter = 10")
    assert resumable.finished.exists()
    run_prepare(GIN_BINDINGS="TrainParams.num_iter = 11")
    assert not is_finished(resumable)


def test_experiment_that_ended_early_continues_for_another_condition_or_more(resumable, capsys):
    facts = {"num_iter": 10, "iteration": 4, "stopped_because": "return >= 9 (9.5)",
             "stop_when": "return >= 9"}  # fmt: skip
    resumable.finished.write_text(json.dumps(facts))
    ended = r"it ended after 4 of 10 iterations, because return >= 9 \(9.5\)"
    same = "TrainParams.stop_when = 'return >= 9'"
    for bindings in ("TrainParams.num_iter = 10", same):
        with pytest.raises(ConfigError, match=f"logs/e is finished: {ended}. .* stop_when=None"):
            run_prepare(GIN_BINDINGS=bindings)
    assert is_finished(resumable)
    for bindings in ("TrainParams.stop_when = None", f"{same}; TrainParams.num_iter = 11"):
        run_prepare(GIN_BINDINGS=bindings)
        assert not is_finished(resumable)
        assert re.search(f"Training continues: {ended}.", capsys.readouterr().out)


NOT_JSON = [b"", b"{", b"[]", b"null", b"\xff\xfe\0", b"[" * 100_000, b"9" * 5000, b"{}\0"]
MALFORMED = {
    "config": NOT_JSON + [b'{"horizon": 1e400}'],
    "params": [b"", b"\0", b"\xff\xfe\0", b"# coding: x\n", b"[" * 100_000, b"-" * 100_000 + b"1"],
    "provenance": [*NOT_JSON, b'{"seed": 7, "gin_bindings": 3, "params_dir": ""}'],
    "finished": [*NOT_JSON, b'{"num_iter": "many"}', b'{"num_iter": 0}', b'{"num_iter": [1]}'],
}  # fmt: skip
CASES = [(name, content) for name, contents in MALFORMED.items() for content in contents]


def contents_of(folder: pathlib.Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(("name", "content"), CASES)
def test_malformed_file_of_an_experiment_is_named_and_changes_nothing(resumable, name, content):
    path = getattr(resumable, name)
    path.write_bytes(content)
    before = contents_of(resumable.root)
    with pytest.raises(ConfigError, match=f"^{path}:"):
        run_prepare()
    assert contents_of(resumable.root) == before


@pytest.mark.parametrize("name", MALFORMED)
def test_folder_in_place_of_a_file_of_an_experiment_is_named(resumable, name):
    path = getattr(resumable, name)
    path.unlink(missing_ok=True)
    path.mkdir()
    with pytest.raises(ConfigError, match=f"{path.name}"):
        run_prepare()


@pytest.mark.parametrize(
    ("name", "content"), [case for case in CASES if case[0] in ("config", "params")]
)
def test_malformed_input_makes_no_folder(project, name, content):
    file = {"config": "c.json", "params": "mine/params.py"}[name]
    (project / file).write_bytes(content)
    with pytest.raises(ConfigError, match=f"^{file}:"):
        run_prepare()
    assert not (project / "logs").exists()


def test_binding_that_gin_cannot_read_makes_no_folder(project):
    with pytest.raises(ConfigError, match="SAC_GIN_BINDINGS: 'A.b = .' is not a gin binding"):
        run_prepare(GIN_BINDINGS="A.b = [")
    assert not (project / "logs").exists()


def test_saved_binding_that_gin_cannot_read_is_named(resumable):
    saved = provenance_of(resumable) | {"gin_bindings": ["A.b = ["]}
    resumable.provenance.write_text(json.dumps(saved))
    with pytest.raises(ConfigError, match="logs/e/provenance.json: 'A.b = .' is not a gin binding"):
        run_prepare()


def test_file_in_place_of_the_experiment_is_named(project):
    (project / "logs").mkdir()
    (project / "logs" / "e").touch()
    with pytest.raises(ConfigError, match="logs/e is not a folder"):
        run_prepare()


def test_damaged_provenance_is_named(resumable):
    resumable.provenance.write_text('{"seed": 7}')
    with pytest.raises(ConfigError, match="logs/e/provenance.json: damaged"):
        run_prepare()


def test_a_start_without_a_checkpoint_says_what_the_one_before_had_trained(resumable, capsys):
    write_report(resumable, learner_report(train_step=1_396))
    capsys.readouterr()
    run_prepare()
    lost = "there is no checkpoint of the 1,396 train steps before"
    assert f"  Training starts again from nothing: {lost}.\n" in capsys.readouterr().out
