import fractions
import json
import re

import numpy as np
import pytest
from browser import Browser, install_chromium
from report_fakes import learner_report, write_report
from run_files import write_episodes, write_run

from tfagents_system.comparison import curves, report_sections
from tfagents_system.comparison.report import make_charts, make_page, report
from tfagents_system.comparison.report_films import find_films
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.programs.command_line import with_arguments
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.films.video import VideoWriter
from tfagents_system.records.event_log import EventLog
from tfagents_system.records.run_history import EvaluationPoint, read_evaluations

NAME = "run <b>&amp;</script>"


def film(paths, train_step, brightness=128):
    path = paths.videos / paths.policy_checkpoint(train_step).name / "episode_0.mp4"
    path.parent.mkdir(parents=True)
    writer = VideoWriter(path, 64, 48, fractions.Fraction(10))
    for _ in range(5):
        writer.write(np.full((48, 64, 3), brightness, np.uint8))
    writer.finish()
    return path


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """An experiment with three evaluations, curves of the learner, and four films."""
    root = tmp_path_factory.mktemp("logs") / NAME.replace("/", "_")
    paths = write_run(root, [0], {"discount": 0.9, "target_update_tau": 0.005, "own": "<i>"})
    evaluated = [(100, 40, -7, 1011), (200, 60, 1, 1020), (200, 60, 5, 1021), (300, 60, -2, 1031)]
    write_episodes(paths, "eval", 0, evaluated)
    log = EventLog(paths.train_summaries / "learner")
    for step in range(10, 110, 10):
        log.write(step, {"learner/critic_loss": step / 10})
    log.close()
    paths.config.write_text(json.dumps({"horizon": 20}))
    phase_secs = {"train steps": 30.0, "waiting for data": 10.0}
    write_report(paths, learner_report(phase_secs=phase_secs))
    for step in (100, 150, 250, 300):
        film(paths, step)
    return paths


@pytest.fixture(scope="module")
def browser():
    install_chromium()
    browser = Browser()
    yield browser
    browser.close()


def test_films_of_the_first_the_middle_and_the_best_policy(paths):
    # The policy of step 250 was evaluated last at step 200, which is the best.
    films = find_films(paths, read_evaluations(paths))
    steps = {caption.partition(" pol")[0]: file.parent.name[-3:] for caption, file in films.items()}
    assert steps == {"first": "100", "middle and best": "250"}
    assert find_films(ExperimentPaths(paths.root / "nowhere"), []) == {}


def test_charts_of_returns_have_the_deviation_over_episodes(paths):
    first, *_, last = make_charts(paths, read_evaluations(paths))
    assert (first["title"], first["xs"]) == ("episode return", [100, 200, 300])
    assert first["ys"] == [-7, (1 + 5) / 2, -2]
    assert first["low"] == [-7, 3 - 2, -2] and first["high"] == [-7, 3 + 2, -2]
    assert (last["title"], last["low"]) == ("critic loss", None)


def test_success_is_in_the_charts_the_summary_and_the_evaluations(tmp_path, capsys):
    paths = write_run(tmp_path / "arm", [1, 2, 3], successes=[1, 0, 1])
    charts = make_charts(paths, read_evaluations(paths))
    chart = next(chart for chart in charts if chart["title"] == "success rate")
    assert (chart["x_label"], chart["xs"]) == ("train steps", [100, 200])
    assert chart["ys"] == [0, 2 / 3]
    report(paths.root)
    page = (paths.root / "report.html").read_text()
    assert f"; success {2 / 3:.0%};" in page
    assert ">success, %</th>" in page and ">66.7</td>" in page
    paths = write_run(tmp_path / "leg", [1])
    report(paths.root)
    assert "success, %" not in (paths.root / "report.html").read_text()


def test_numbers_of_log_info_are_columns_of_the_evaluations():
    points = [
        EvaluationPoint(100, 40, 60.0, [1.0], {"distance_mean": 0.5}),
        EvaluationPoint(200, 80, 120.0, [2.0]),
    ]
    table = report_sections.evaluations(points)
    assert [row.rpartition("<td")[2] for row in table.split("</tr>")[1:3]] == [
        ' class="number">-</td>', ' class="number">0.5</td>'
    ]  # fmt: skip
    assert ">distance_mean</th>" in table


def test_choices_of_the_newest_policy_are_a_bar_for_each_branch():
    shares = {"action_share_grip_-1": 0.25, "action_share_grip_2": 0.75, "action_share_0": 1.0}
    points = [EvaluationPoint(100, 40, 60.0, [1.0], {"distance_mean": 0.5} | shares)]
    rows = report_sections.choices(points).split("<tr>")[1:]
    assert ["<td>grip</td>" in rows[0], "<td>action</td>" in rows[1]] == [True, True]
    assert "width:25.00%" in rows[0] and "-1 25.0%, " in rows[0] and " 2 75.0%" in rows[0]
    assert "width:100.00%" in rows[1] and len(rows) == 2
    assert "action_share" not in report_sections.evaluations(points)
    assert report_sections.choices([EvaluationPoint(1, 1, 1.0, [1.0]), points[0]._replace(
        numbers={})]) == report_sections.choices([]) == ""  # fmt: skip


def test_report_works_in_a_browser_without_network(paths, browser, tmp_path, capsys):
    output = tmp_path / "report.html"
    with_arguments(report, ["report", str(paths.root), f"--output={output}"])()
    assert capsys.readouterr().out == f"{output}\n"
    assert re.findall(r"""(?:src|href)=["'](?!data:)""", output.read_text()) == []
    browser.open(output)
    assert browser.run("return document.title") == paths.root.name
    assert browser.run("return document.querySelectorAll('b, i').length") == 0  # all is escaped
    headings = browser.run("return [...document.querySelectorAll('h2')].map((h) => h.textContent)")
    assert headings == ["Curves", "Evaluations", "Films", "Configuration", "Where the time went",
                        "Provenance"]  # fmt: skip

    rows = browser.run(
        "return [...document.querySelectorAll('tr')].map((row) => ["
        "row.className, ...[...row.cells].map((cell) => cell.textContent)])"
    )
    assert ["", "200", "40", "0.5", "2", "3", "2", "1", "5"] in rows  # (1021 - 990) s / 60
    changed = [row[1:4] for row in rows if row[0] == "changed"]
    assert changed == [["discount", "0.9", "0.99"], ["own", "'<i>'", "None"]]
    assert not any("`" in cell for row in rows for cell in row)
    assert any(row[1] == "target_update_tau" for row in rows)
    assert any("train steps 75.0%, ■ waiting for data 25.0%" in row[-1] for row in rows)
    assert ["", "git_hash", "abc"] in rows

    videos = browser.run(
        "const done = (v) => v.readyState >= 1 || new Promise((ok) => v.onloadedmetadata = ok);"
        "const all = [...document.querySelectorAll('video')];"
        "return Promise.all(all.map(done)).then(() => all.map((v) => [v.videoWidth, v.duration]))"
    )
    assert videos == [[64, pytest.approx(5 / 10)]] * 2
    browser.screenshot(tmp_path / "report.png")
    assert (tmp_path / "report.png").read_bytes().startswith(b"\x89PNG")
    assert browser.errors() == []


def test_values_read_as_in_python_not_as_in_json():
    assert report_sections.shown({"deep": [None, True, "x"]}) == "{'deep': [None, True, 'x']}"
    assert report_sections.shown((256, 256)) == "[256, 256]"  # as a saved one
    assert ">{&#x27;a&#x27;: None}</pre>" in report_sections.details("more", {"a": None})


def test_curves_tell_their_values_and_can_be_zoomed(paths, browser, tmp_path):
    report(paths.root, tmp_path / "report.html")
    browser.open(tmp_path / "report.html")
    charts = browser.run("return document.querySelectorAll('#curves svg').length")
    assert charts == 4  # returns against three axes, and the loss
    box = browser.run(
        "const svg = document.querySelectorAll('#curves svg')[3];"
        "svg.scrollIntoView({block: 'center'});"
        "const box = svg.getBoundingClientRect(); return [box.x, box.y, box.width, box.height]"
    )
    loss = "document.querySelectorAll('#curves svg')[3]"

    def at(share):
        """Of the x axis, which goes from 58 to 380 - 26 of 380."""
        return box[0] + box[2] * (58 + share * (380 - 26 - 58)) / 380, box[1] + box[3] / 2

    def points():
        return browser.run(
            f"return {loss}.querySelector('polyline').getAttribute('points').split(' ').length"
        )

    assert points() == 10  # steps 10, 20, ..., 100
    browser.pointer(("move", *at(3 / 9)))
    assert browser.run(f"return {loss}.querySelector('.note').textContent") == "40: 4"
    browser.pointer(("move", *at(2.5 / 9)), ("down",), ("move", *at(6.5 / 9)), ("up",))
    assert points() == 4  # 40, 50, 60, 70
    browser.pointer(("down",), ("up",), ("down",), ("up",))
    assert points() == 10
    assert browser.errors() == []


@pytest.mark.parametrize("name", ["a@BODY@b", "@TITLE@", "@CHARTS@<i>", "\\1 \\g<0>", "na\udcffme"])
def test_a_name_may_look_like_a_mark_of_the_page(tmp_path, browser, name):
    root = tmp_path / name
    write_run(root, [0], {"own": "@CHARTS@"})
    report(root)
    browser.open(root / "report.html" if name.isprintable() else moved(root, tmp_path))
    shown = name.encode(errors="replace").decode()
    assert browser.run("return document.title") == shown
    assert browser.run("return document.querySelector('h1').textContent") == shown
    assert browser.run("return document.querySelectorAll('h1, #curves').length") == 2
    assert "'@CHARTS@'" in browser.run("return document.body.textContent")
    assert browser.errors() == []


def moved(root, folder):
    return (root / "report.html").rename(folder / "report.html")  # the browser cannot name it


def test_report_of_an_experiment_that_has_only_begun(tmp_path, browser):
    (tmp_path / "episodes").mkdir()
    report(tmp_path)
    browser.open(tmp_path / "report.html")
    assert "no evaluation yet" in browser.run("return document.body.textContent")
    assert browser.errors() == []


def test_report_of_equal_returns(tmp_path, browser):
    paths = write_run(tmp_path / "arm", [0])
    write_episodes(paths, "eval", 0, [(100, 40, 12.3, 1011)] * 3)
    chart, *_ = make_charts(paths, read_evaluations(paths))
    assert 0 < chart["high"][0] - chart["low"][0] < 1e-14  # by rounding
    report(paths.root)
    browser.open(paths.root / "report.html")
    labels = browser.run(
        "const svg = document.querySelector('#curves svg');"
        "const texts = [...svg.querySelectorAll('text[text-anchor=end]:not(.note)')];"
        "return texts.map((text) => text.textContent)"
    )
    assert labels == ["12", "12.5"]  # every 0.5 from 0.95 * 12.3 to 1.05 * 12.3
    assert browser.errors() == []


def test_report_of_a_run_that_is_evaluated_meanwhile(tmp_path, monkeypatch):
    paths = write_run(tmp_path / "arm", [1])

    def read_later(paths):
        return [*read_evaluations(paths), EvaluationPoint(300, 60, 60.0, [2.0])]

    monkeypatch.setattr(curves, "read_evaluations", read_later)
    assert '"xs": [100.0, 200.0]' in make_page(paths)


def test_what_cannot_be_reported_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="is not the folder of an experiment"):
        report(tmp_path)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "episodes").mkdir()
    with pytest.raises(ConfigError, match="nowhere: no such experiment folder"):
        report(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="Cannot write .*: No such file"):
        report(tmp_path, tmp_path / "nowhere" / "report.html")
    ExperimentPaths(tmp_path).running.mkdir()
    ExperimentPaths(tmp_path).run_spec.write_text("{")
    with pytest.raises(ConfigError, match="No report of"):
        report(tmp_path)
    ExperimentPaths(tmp_path).run_spec.write_text("[1]")
    with pytest.raises(ConfigError, match="run_spec.json: damaged"):
        report(tmp_path)


def test_a_report_that_cannot_be_written_is_named_by_its_own_name(tmp_path):
    write_run(tmp_path / "run", [1])
    (tmp_path / "folder").mkdir()
    for output, reason in (("folder", "Is a directory"), ("no/x.html", "No such file")):
        with pytest.raises(
            ConfigError, match=f"Cannot write .*/{output}: {reason}.* Set --output."
        ):
            report(tmp_path / "run", output=tmp_path / output)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "run"]
