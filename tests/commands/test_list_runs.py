"""The table of experiments."""

import json
import platform

from report_fakes import learner_report, write_report
from run_files import write_run

from tfagents_system.commands.list_runs import list_runs
from tfagents_system.core.state.mirror_addresses import write_address
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


def test_a_run_of_another_host_is_running_only_if_it_reports_meanwhile(
    tmp_path, capsys, monkeypatch
):
    runs = [write_run(tmp_path / name, [1]) for name in ("alive", "ended", "finished")]
    for paths in runs:
        host = f"not {platform.node()}"
        paths.lock.write_text(json.dumps({"host": host, "pid": 1, "since": ""}))
        write_report(paths, learner_report(host=host))
    runs[2].finished.write_text("{}")
    sleep = status.time.sleep

    def report_once_more(secs):
        write_report(runs[0], learner_report(host=host, sequence=1))
        sleep(secs)

    monkeypatch.setattr(status, "GONE_SECS", 2.0)
    monkeypatch.setattr(status.time, "sleep", report_once_more)
    list_runs(tmp_path)
    _, *rows = capsys.readouterr().out.splitlines()
    states = {row.split()[0]: row.split()[1] for row in rows}
    assert states == {"alive": "running", "ended": "stopped", "finished": "finished"}
