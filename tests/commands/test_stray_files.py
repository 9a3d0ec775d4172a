"""No command stumbles over foreign files in an experiment's folders, or counts them."""

import json
import os
import re
import subprocess
import sys

import pytest
from report_fakes import learner_report, replay_report, worker_report, write_report
from run_files import write_run

from tfagents_system.commands.dashboard import Dashboard
from tfagents_system.commands.list_runs import list_runs
from tfagents_system.comparison.report import report
from tfagents_system.core.errors import ConfigError, SupersededError
from tfagents_system.core.state.best_policies import FACTS, best_policy
from tfagents_system.core.state.generations import generations
from tfagents_system.core.state.incarnation import Claims, Fence
from tfagents_system.core.state.liveness import LivingPrograms
from tfagents_system.core.state.reports import Phase, read_phase_secs
from tfagents_system.launch.link.last_workers import await_last_workers
from tfagents_system.launch.show.status import Watch
from tfagents_system.launch.show.status_line import status_line
from tfagents_system.records.run_history import read_evaluations


@pytest.fixture
def paths(tmp_path):
    """A run that has ended."""
    paths = write_run(tmp_path / "logs" / "tiny", [1, 5])
    secs = {"train steps": 3.0}
    write_report(paths, learner_report(phase=Phase.STOPPED, phase_secs=secs))
    write_report(paths, replay_report())
    for number in (0, 1):
        write_report(paths, worker_report(number, phase=Phase.STOPPED))
    return paths


STRAYS = [
    "worker_0 (conflicted copy).json", "worker_1 2.json", "learner-conflict-20261127.json",
    "worker_01.json", "worker_².json", "worker_.json", "worker_9999999.json", "notes.json",
    "relay.json", "mirror-x.json", "learner.json.json", ".worker_0.json",
]  # fmt: skip


def shown(paths):
    """All that the readers of reports say."""
    snapshot = Watch(paths).look()
    others = LivingPrograms(paths, "worker_7")
    return (
        status_line(snapshot),
        read_phase_secs(paths),
        others.any_works(),
        sorted(snapshot.reports),
    )


@pytest.mark.parametrize("name", STRAYS)
def test_files_of_no_program_are_no_reports(paths, name):
    clean = shown(paths)
    (paths.statuses / name).write_bytes(paths.status("worker_0").read_bytes())
    assert shown(paths) == clean
    await_last_workers(paths.root)
    Dashboard(paths).draw(Watch(paths).look())
    report(paths.root, film=False)


def as_folder(path):
    path.mkdir()


def as_pipe(path):
    os.mkfifo(path)


def as_endless(path):
    path.symlink_to("/dev/zero")


def with_changes(**changes):
    def write(path):
        record = json.loads((path.parent / "worker_0.json").read_text()) | changes
        path.write_text(json.dumps(record))

    return write


DAMAGES = {
    "binary": lambda path: path.write_bytes(bytes(range(256))),
    "empty": lambda path: path.write_text(""),
    "a list": lambda path: path.write_text("[]"),
    "a number": lambda path: path.write_text("7"),
    "nested": lambda path: path.write_text("[" * 100_000),
    "huge number": lambda path: path.write_text("1" * 10_000),
    "folder": as_folder,
    "pipe": as_pipe,
    "endless": as_endless,
    "loop": lambda path: path.symlink_to(path.name),
    "of another program": with_changes(),
    "not a number": with_changes(program="worker_3", memory_mb=float("nan")),
    "infinite": with_changes(program="worker_3", env_steps_per_sec=float("inf")),
    "beyond floats": with_changes(program="worker_3", env_steps=10**400),
    "wrong types": with_changes(program="worker_3", phase_secs={"a": "b"}),
    "wrong phase": with_changes(program="worker_3", phase=["stopped"]),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_report_that_is_none_is_named(paths, damage):
    line, *_ = shown(paths)
    DAMAGES[damage](paths.status("worker_3"))
    assert re.search(r"unknown: worker_3 \(worker_3\.json", shown(paths)[0])
    assert shown(paths)[0].partition(") | ")[2] == line
    await_last_workers(paths.root)
    Dashboard(paths).draw(Watch(paths).look())
    report(paths.root, film=False)


def test_copies_of_episodes_are_not_counted_twice(paths):
    before = read_evaluations(paths)
    for kind in ("collect", "eval"):
        content = (paths.episodes / f"{kind}_0.csv").read_bytes()
        for name in ("0 (conflicted copy)", "0.sync-conflict-20261127", "x", "0 2"):
            (paths.episodes / f"{kind}_{name}.csv").write_bytes(content)
        (paths.episodes / f"{kind}_1.csv").mkdir()
        os.mkfifo(paths.episodes / f"{kind}_2.csv")
    assert read_evaluations(paths) == before


def test_an_evaluator_s_episodes_count(paths):
    before = len(read_evaluations(paths)[-1].returns)
    (paths.episodes / "eval_0.csv").rename(paths.episodes / "eval_evaluator_0.csv")
    assert len(read_evaluations(paths)[-1].returns) == before


def test_copies_of_policies_and_generations_are_none(paths):
    folder = paths.policies / "checkpoints"
    real = paths.policy_checkpoint(200)
    real.mkdir(parents=True)
    (folder / f"{real.name} (conflicted copy)").mkdir()
    paths.policy_checkpoint(300).write_text("a file")
    assert paths.policy_checkpoints() == [real]
    (paths.checkpoints / "0000000200").mkdir(parents=True)
    (paths.checkpoints / "0000000300 (conflicted copy)").mkdir()
    assert [path.name for path in generations(paths.checkpoints)] == ["0000000200"]


@pytest.mark.parametrize(
    "facts",
    ["[]", "{}", '{"iteration": 1, "train_step": "x", "mean_return": "y", "num_episodes": 1}',
     '{"iteration": 1, "train_step": [], "mean_return": 1.0, "num_episodes": 1}', "[" * 100_000],
)  # fmt: skip
def test_damaged_facts_of_a_best_policy_are_left_out(paths, facts):
    folder = paths.best_policies / "policy_checkpoint_0000000200"
    folder.mkdir(parents=True)
    (folder / FACTS).write_text(facts)
    assert best_policy(paths) is None


def test_files_beside_claims_are_none(tmp_path):
    claims = Claims(tmp_path)
    fence = Fence(claims, "core", claims.claim("core"))
    (tmp_path / "20261127").write_text("notes")
    (tmp_path / "000001 (conflicted copy)").write_bytes((tmp_path / "000001").read_bytes())
    (tmp_path / "000002").mkdir()
    assert fence.is_newest
    assert claims.claim("core") == 3
    (tmp_path / "000004").write_text('{"program": "core"}')
    with pytest.raises(SupersededError, match=r"\? has started core anew .*number 4"):
        fence.check()


def test_the_list_of_experiments_does_without_what_is_none(paths, capsys):
    logs = paths.root.parent
    list_runs(logs)
    clean = capsys.readouterr().out
    (logs / "a file").write_text("")
    (logs / "a folder").mkdir()
    os.mkfifo(logs / "a pipe")
    (logs / "loop").symlink_to("loop")
    (logs / "gone").symlink_to("nowhere")
    list_runs(logs)
    assert capsys.readouterr().out == clean
    (paths.root / "stdout").mkdir()
    os.mkfifo(paths.root / "stdout" / "worker_0.log")
    Dashboard(paths).draw(Watch(paths).look())


def test_an_experiment_whose_checkpoints_cannot_be_read_is_listed(paths, capsys):
    paths.checkpoints.write_text("no folder")
    list_runs(paths.root.parent)
    assert "tiny" in capsys.readouterr().out


def test_a_pipe_does_not_hold_up_a_look(paths):
    os.mkfifo(paths.status("worker_5"))
    command = [sys.executable, "-m", "tfagents_system", "watch", "--line", str(paths.root)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert done.returncode == 0 and "unknown: worker_5" in done.stdout


def test_a_resume_is_refused_where_a_report_cannot_be_written(paths):
    from tfagents_system.launch.local.prepare import _check_has_place_for_reports

    _check_has_place_for_reports(paths)
    (paths.statuses / "no report").mkdir()
    _check_has_place_for_reports(paths)
    paths.status("worker_3").mkdir()
    with pytest.raises(ConfigError, match="worker_3.json is a folder, where worker_3 writes its"):
        _check_has_place_for_reports(paths)
