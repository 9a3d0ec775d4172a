import pytest
from report_fakes import learner_report, replay_report, write_report

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.launch.show import profile


def test_phases_between_two_readings_are_their_difference():
    before = {"learner": {"train steps": 10.0, "saving": 1.0}}
    after = {"learner": {"train steps": 16.0, "saving": 1.0, "publishing": 2.0}}
    assert profile.phases_between(before, after) == {
        "learner": {"train steps": 6.0, "saving": 0.0, "publishing": 2.0}
    }


@pytest.mark.parametrize("earlier", [{"acting": 5.0}, {"acting": 70.0}])
def test_a_program_that_stood_still_or_began_anew_shows_its_totals(earlier):
    after = {"worker_0": {"acting": 5.0}}
    assert profile.phases_between({"worker_0": earlier}, after) == after


def test_table_ranks_the_phases_by_share():
    table = profile.profile_table({"learner": {"saving": 1.0, "train steps": 3.0, "idle": 0.0}})
    assert table == "learner          4.0 s: train steps 75.0%, saving 25.0%"


def test_main_prints_what_the_programs_reported(tmp_path, capsys):
    paths = ExperimentPaths(tmp_path)
    paths.episodes.mkdir()
    phase_secs = {"train steps": 30.0, "waiting for data": 10.0}
    write_report(paths, learner_report(phase_secs=phase_secs))
    write_report(paths, replay_report())
    paths.status("worker_0").write_text("{")
    profile.profile(tmp_path, 0.0)
    assert capsys.readouterr().out == (
        "learner         40.0 s: train steps 75.0%, waiting for data 25.0%\n"
    )


def test_a_folder_without_reports_and_an_unknown_one_are_refused(tmp_path):
    (tmp_path / "episodes").mkdir()
    with pytest.raises(ConfigError, match="No program has reported phases in .*status"):
        profile.profile(tmp_path, 0.0)
    with pytest.raises(ConfigError, match="nowhere: no such experiment folder"):
        profile.profile(tmp_path / "nowhere", 0.0)
