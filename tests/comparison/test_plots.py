import matplotlib.pyplot as plt
import pytest
from run_files import write_episodes, write_run

from tfagents_system.comparison.plots import (
    CurvePoint,
    curve,
    draw_learning_curve,
    figure_of,
    plot,
    read_returns,
)
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.programs.command_line import with_arguments
from tfagents_system.core.state.paths import ExperimentPaths

HEADER = "worker,iteration,train_step,env_step,return,length,wall_time,success\n"


def test_returns_of_all_files_in_order_without_lines_cut_short(tmp_path):
    (tmp_path / "episodes").mkdir()
    first, second = (tmp_path / "episodes" / f"eval_{worker}.csv" for worker in range(2))
    first.write_text(HEADER + "0,2,100,40,-1.5,20,1.0,\n0,3,150,4")
    second.write_text(HEADER + "1,1,50,40,-3,20,1.0,1\n")
    assert read_returns(ExperimentPaths(tmp_path), "eval") == [(50, -3.0), (100, -1.5)]


def test_curve_groups_by_interval():
    pairs = [(0, 1.0), (9, 3.0), (10, 5.0), (35, 7.0)]
    assert curve(pairs, interval=10) == [
        CurvePoint(0, (1 + 3) / 2, 1.0),  # both lie 1 from their mean
        CurvePoint(10, 5.0, 0.0),
        CurvePoint(30, 7.0, 0.0),
    ]
    assert curve([]) == []


def test_drawing_writes_a_png(tmp_path):
    episodes = tmp_path / "episodes"
    episodes.mkdir()
    (episodes / "collect_0.csv").write_text(HEADER + "0,2,100,40,-1.5,20,1.0,\n")
    (episodes / "eval_0.csv").write_text(HEADER)  # no evaluation yet
    draw_learning_curve(tmp_path, tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_drawing_of_the_largest_numbers_in_a_folder_of_any_name(tmp_path):
    folder = tmp_path / "a$^{x"
    (folder / "episodes").mkdir(parents=True)
    for kind in ("collect", "eval"):
        (folder / "episodes" / f"{kind}_0.csv").write_bytes(
            HEADER.encode() + b"\xff\0\n"
            b"0,2,1,40,nan,20,1.0,\n0,2,1,40,-inf,20,1.0,\n0,2,1,40,1e300,20,1.0,\n"
            b"0,2,999999999999999,40,1e100,20,1.0,\n0,2,999999999999999,40,-1e100,20,1.0,\n"
        )  # fmt: skip
    draw_learning_curve(folder, tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_the_learning_curve_has_the_success_rate_below_if_there_is_one(tmp_path, monkeypatch):
    figures = []
    monkeypatch.setattr(plt, "close", figures.append)
    write_run(tmp_path / "arm", [1, 2], successes=[1, 0])
    write_run(tmp_path / "leg", [1])
    for name in ("arm", "leg"):
        draw_learning_curve(tmp_path / name, tmp_path / "curve.png")
    (returns, rates), (alone,) = (figure.axes for figure in figures)
    assert (rates.get_ylabel(), rates.get_xlabel()) == ("success rate", "train step")
    (line,) = rates.lines
    assert (list(line.get_xdata()), list(line.get_ydata())) == ([100, 200], [0, 1 / 2])
    assert (returns.get_xlabel(), alone.get_xlabel()) == ("", "train step")


def test_a_run_that_trains_offline_has_no_env_steps(tmp_path, monkeypatch, capsys):
    figures = []
    monkeypatch.setattr(plt, "close", figures.append)
    paths = ExperimentPaths(tmp_path / "arm")
    write_episodes(paths, "eval", "evaluator_0", [(100, 0, -7, 1011), (200, 0, 1, 1021)])
    plot(exp_dir=paths.root)
    plot((str(paths.root),), output=tmp_path / "group.png")
    for output in (paths.root / "learning_curve.png", tmp_path / "group.png"):
        assert output.read_bytes().startswith(b"\x89PNG")
    (alone,), panels = (figure.axes for figure in figures)
    (line,) = alone.lines
    assert (list(line.get_xdata()), list(line.get_ydata())) == ([100, 200], [-7, 1])
    assert [axes.get_xlabel() for axes in panels] == ["train steps", "minutes of training"]


def test_experiment_without_episodes_and_an_unknown_one_are_refused(tmp_path):
    (tmp_path / "policies").mkdir()
    with pytest.raises(ConfigError, match="episodes has no episodes yet"):
        plot(exp_dir=tmp_path)
    with pytest.raises(ConfigError, match="nowhere: no such experiment folder"):
        plot(exp_dir=tmp_path / "nowhere")


def test_groups_of_seeds_are_drawn_beside_each_other(tmp_path, capsys):
    for name in ("a_1", "a_2", "b$^{x"):
        write_run(tmp_path / name, [1])
    output = tmp_path / "comparison.png"
    argv = ["plots", str(tmp_path / "a_"), str(tmp_path / "b$^{x"), f"--output={output}"]
    with_arguments(plot, argv)()
    assert capsys.readouterr().out == f"{output}\n"
    assert output.read_bytes().startswith(b"\x89PNG")


def test_the_file_that_is_named_is_the_one_that_is_written(tmp_path, capsys):
    write_run(tmp_path / "a", [1])
    output = tmp_path / "curve"
    plot((str(tmp_path / "a"),), output=output)
    assert capsys.readouterr().out == f"{output}\n"
    assert output.read_bytes().startswith(b"\x89PNG")


def test_what_cannot_be_drawn_is_refused(tmp_path):
    (tmp_path / "episodes").mkdir()
    with pytest.raises(ConfigError, match="Give either experiments, or --exp_dir"):
        plot()
    with pytest.raises(ConfigError, match="Give either experiments, or --exp_dir"):
        plot((str(tmp_path),), exp_dir=tmp_path)
    with pytest.raises(ConfigError, match="Nothing to draw yet: no evaluation and no summary in"):
        plot((str(tmp_path),))
    write_run(tmp_path / "a", [1])
    with pytest.raises(ConfigError, match="nowhere"):
        plot((str(tmp_path / "a"),), output=tmp_path / "nowhere" / "a.png")
    with pytest.raises(ConfigError, match="no image ends with .txt; expected .*png"):
        plot((str(tmp_path / "a"),), output=tmp_path / "a.txt")


@pytest.mark.parametrize(
    ("number", "rows"), [(1, [1]), (2, [2]), (3, [3]), (4, [2, 2]), (5, [3, 2]), (7, [3, 2, 2])]
)
def test_panels_fill_their_rows(number, rows):
    figure, all_axes = figure_of(number)
    assert len(all_axes) == len(figure.axes) == number
    places = [axes.get_subplotspec() for axes in all_axes]
    for row, length in enumerate(rows):
        spans = [place.colspan for place in places if place.rowspan.start == row]
        columns = places[0].get_gridspec().ncols
        assert len(spans) == length and sum(map(len, spans)) == columns
    plt.close(figure)


def test_seeds_with_one_evaluation_each_at_different_env_steps_are_visible(tmp_path, monkeypatch):
    figures = []
    monkeypatch.setattr(plt, "close", figures.append)
    for seed, env_steps in ((1, 40), (2, 60)):
        paths = ExperimentPaths(tmp_path / f"a_{seed}")
        write_episodes(paths, "collect", 0, [(0, env_steps, -9, 1000)])
        write_episodes(paths, "eval", 0, [(100, env_steps, -7, 1010 + seed)])
    plot((str(tmp_path / "a_"),), output=tmp_path / "a.png")
    (figure,) = figures
    for axes in figure.axes:
        assert any(len(line.get_xdata()) and line.get_marker() == "o" for line in axes.lines)


def test_an_output_that_cannot_be_written_is_named(tmp_path):
    write_run(tmp_path / "run", [1])
    (tmp_path / "folder.png").mkdir()
    for output, reason in (("folder.png", "Is a directory"), ("no/x.png", "No such file")):
        with pytest.raises(ConfigError, match=f"Cannot write .*{output}: {reason}.* Set --output."):
            draw_learning_curve(tmp_path / "run", tmp_path / output)
