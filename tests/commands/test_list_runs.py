"""The table of experiments."""

from run_files import write_run

from tfagents_system.commands.list_runs import list_runs
from tfagents_system.core.state.mirror_addresses import write_address


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
