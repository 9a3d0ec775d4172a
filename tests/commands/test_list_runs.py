"""The table of experiments."""

import json
import os
import platform
import time

import pytest
from report_fakes import learner_report, write_report
from run_files import write_run

from tfagents_system.commands.list_runs import list_runs
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.state.mirror_addresses import write_address
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.state.reports import Phase
from tfagents_system.launch.show import status


def test_a_column_shows_the_success_rate_of_the_last_evaluation_if_there_is_any(tmp_path, capsys):
    write_run(tmp_path / "leg", [2])
    list_runs(tmp_path)
    assert "success" not in capsys.readouterr().out
    write_run(tmp_path / "arm", [1, 2, 3], successes=[1, 0, 1])
    list_runs(tmp_path)
    header, *rows = capsys.readouterr().out.splitlines()
    end = header.index("success") + len("success")
    found = {row.split()[0]: row[header.index("success") : end].strip() for row in rows}
    assert found == {"leg": "", "arm": f"{2 / 3:.0%}"}


def test_a_last_column_says_where_mirrored_runs_are_if_there_are_any(tmp_path, capsys):
    paths = write_run(tmp_path / "arm", [1])
    list_runs(tmp_path)
    assert capsys.readouterr().out.splitlines()[0].endswith("  changed")
    write_run(tmp_path / "leg", [2])
    for tracker, address in (("mlflow", "http://tracker/#/runs/1"), ("wandb", "offline-run-*")):
        folder = paths.mirrors / tracker
        folder.mkdir(parents=True)
        write_address(folder, address)
    list_runs(tmp_path)
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.endswith("  mirrored to")
    assert {row[header.index("mirrored") :] for row in rows} == {
        "mlflow: http://tracker/#/runs/1, wandb: offline-run-*", ""
    }  # fmt: skip


def write_run_of_another_host(root, **report):
    paths, host = write_run(root, [1]), f"not {platform.node()}"
    paths.lock.write_text(json.dumps({"host": host, "pid": 1, "since": ""}))
    write_report(paths, learner_report(host=host, **report))
    return paths


def states(printed):
    header, *rows = printed.splitlines()
    end = header.index("train steps")
    return {row.split()[0]: row[header.index("state") : end].strip() for row in rows}


def test_a_run_of_another_host_is_running_only_if_it_reports_meanwhile(
    tmp_path, capsys, monkeypatch
):
    alive, killed = (write_run_of_another_host(tmp_path / name) for name in ("alive", "killed"))
    sleep = status.time.sleep

    def report_once_more(secs):
        write_report(alive, learner_report(host=f"not {platform.node()}", sequence=1))
        sleep(secs)

    monkeypatch.setattr(status, "GONE_SECS", 2.0)
    monkeypatch.setattr(status.time, "sleep", report_once_more)
    list_runs(tmp_path)
    assert states(capsys.readouterr().out) == {"alive": "running", "killed": "stopped"}


def test_runs_of_other_hosts_that_have_surely_ended_are_not_waited_for(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(status.time, "sleep", lambda secs: pytest.fail("it has waited"))
    finished = write_run_of_another_host(tmp_path / "finished")
    finished.finished.write_text("{}")
    write_run_of_another_host(tmp_path / "stopped", phase=Phase.STOPPED)
    old = write_run_of_another_host(tmp_path / "old").status("learner")
    two_days_ago = time.time() - 2 * 86_400
    os.utime(old, (two_days_ago, two_days_ago))
    list_runs(tmp_path)
    assert states(capsys.readouterr().out) == {
        "finished": "finished", "stopped": "stopped", "old": "stopped"
    }  # fmt: skip


def test_it_waits_no_longer_than_until_each_running_one_has_reported(tmp_path, capsys, monkeypatch):
    runs = [write_run_of_another_host(tmp_path / name) for name in ("arm", "leg")]
    naps = []

    def report(secs):
        write_report(runs[len(naps)], learner_report(host="there", sequence=len(naps) + 1))
        naps.append(secs)

    monkeypatch.setattr(status.time, "sleep", report)
    list_runs(tmp_path)
    assert states(capsys.readouterr().out) == {"arm": "running", "leg": "running"}
    assert naps == [status.LOOK_PERIOD_SECS] * 2


def test_broken_experiments_are_listed_with_the_reason(tmp_path, capsys):
    write_run(tmp_path / "arm", [1])
    cut = write_run(tmp_path / "cut", [2])
    cut.provenance.write_text('{"seed": ')
    half = ExperimentPaths(tmp_path / "half")  # of a copy that was interrupted
    (half.checkpoints / "0000003000").mkdir(parents=True)
    for other in ("notes", "plots"):
        (tmp_path / other).mkdir()
    (tmp_path / "notes" / "params.py").touch()
    list_runs(tmp_path)
    table, reasons = [], []
    for line in capsys.readouterr().out.splitlines():
        (reasons if " is broken: " in line else table).append(line)
    assert states("\n".join(table)) == {
        "arm": "stopped", "cut": "stopped, broken", "half": "broken"
    }  # fmt: skip
    assert sorted(reasons) == [
        f"cut is broken: {cut.provenance}: damaged (cannot be read: Expecting value: line 1 column "
        "10 (char 9)). Repair it, or start again: choose another SAC_EXP_NAME, or move the folder "
        "away.",
        "half is broken: it has checkpoints, but no provenance.json, policies or episodes: copy "
        "all of it, or move it away",
    ]


def test_a_folder_that_cannot_be_read_is_listed(tmp_path, capsys, monkeypatch):
    root = write_run(tmp_path / "arm", [1]).root
    listdir, exists = os.listdir, os.path.exists

    def refuse(path):
        if path == root:
            raise PermissionError(13, "Permission denied", str(path))
        return listdir(path)

    monkeypatch.setattr(os, "listdir", refuse)  # tests may run as root, who can read everything
    monkeypatch.setattr(os.path, "exists", lambda p: root not in p.parents and exists(p))
    list_runs(tmp_path)
    assert "arm is broken: it cannot be read: Permission denied" in capsys.readouterr().out


def test_the_folder_of_an_experiment_is_refused(tmp_path):
    write_run(tmp_path / "arm", [1])
    with pytest.raises(ConfigError, match=rf"arm is an experiment\. .*: sac list {tmp_path}$"):
        list_runs(tmp_path / "arm")
