import io
import json
import re
import shutil

import gin
import pytest
from fakes import UNRIVALLED

from tfagents_system import run
from tfagents_system.agents.construction import make_agent
from tfagents_system.comparison import report_films
from tfagents_system.comparison.report import make_page, report
from tfagents_system.comparison.report_films import find_films, make_films
from tfagents_system.core.programs.command_line import with_arguments
from tfagents_system.core.programs.params_loader import load_params
from tfagents_system.core.state.best_policies import FACTS, EvaluatedPolicy
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.learning.policy_export import PolicyExporter, write_policy
from tfagents_system.records.run_history import EvaluationPoint
from tfagents_system.terminal.lines import Terminal

CONFIG = {"horizon": 5}
PARAMS = """
from tfagents_system.environments import gym_adapter
from tfagents_system.train_params_base import TrainParamsBase

class TrainParams(TrainParamsBase):
    actor_fc_layer_params = (8,)
    critic_joint_fc_layer_params = (8,)

    def env_ctor(self, *args, seed=None, **kwargs):
        return gym_adapter.load("Pendulum-v1", seed=seed)
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """An experiment with the policies of train steps 10, 20, 30 and 40; the best is that of 15."""
    paths = ExperimentPaths(tmp_path_factory.mktemp("logs") / "pendulum")
    paths.root.mkdir()
    paths.params.write_text(PARAMS)
    paths.config.write_text(json.dumps(CONFIG))
    params = load_params(paths.params, CONFIG)
    agent, train_step = make_agent(params, params.env_ctor())
    exporter = PolicyExporter(paths, agent, train_step, UNRIVALLED)
    for number in (10, 20, 30, 40):
        train_step.assign(number)
        exporter.export()
    best = EvaluatedPolicy(paths.best_policies / paths.policy_checkpoint(15).name, 3, 15, -1.0, 2)
    write_policy(best.folder, agent.policy.variables())
    (best.folder / FACTS).write_text(json.dumps(best.facts()))
    return paths.root


@pytest.fixture
def paths(trained, tmp_path):
    """A copy of the experiment for the test alone."""
    yield ExperimentPaths(shutil.copytree(trained, tmp_path / "pendulum"))
    gin.clear_config()


def film_names(paths):
    return sorted(str(path.relative_to(paths.videos)) for path in paths.videos.rglob("*"))


def test_missing_films_are_made_of_the_first_the_middle_and_the_best_policy(paths, capsys):
    report(paths.root, film=True)
    assert capsys.readouterr() == (f"{paths.root}/report.html\n", "")
    names = [paths.policy_checkpoint(step).name for step in (10, 15, 20)]  # of 10 15 20 30 40
    assert film_names(paths) == sorted([*names, *(f"{name}/episode_0.mp4" for name in names)])
    page = (paths.root / "report.html").read_text()
    assert page.count("<video") == 3
    for caption in ("first policy, train step 10", "middle policy, train step 20",
                    "best policy, train step 15"):  # fmt: skip
        assert caption in page
    # They are those of `sac eval`.
    film = paths.videos / names[0] / "episode_0.mp4"
    content = film.read_bytes()
    run.evaluate(str(paths.root), num_episodes=1, checkpoint=names[0], stop=False)
    assert film.read_bytes() == content


def test_films_that_are_there_are_not_made_again_and_those_of_training_count(paths, monkeypatch):
    paths.training_videos.mkdir(parents=True)
    for step in (10, 15):
        (paths.training_videos / f"{paths.policy_checkpoint(step).name}.mp4").write_text("film")
    own = paths.videos / paths.policy_checkpoint(20).name / "episode_0.mp4"
    own.parent.mkdir()
    own.write_text("film")
    before = film_names(paths)
    monkeypatch.setattr(report_films, "_film_all", lambda *_: pytest.fail("films"))
    make_films(paths, [], Terminal(io.StringIO()))
    assert film_names(paths) == before
    assert [(caption, path.name) for caption, path in find_films(paths, []).items()] == [
        ("first policy, train step 10", "policy_checkpoint_0000000010.mp4"),
        ("middle policy, train step 20", "episode_0.mp4"),
        ("best policy, train step 15", "policy_checkpoint_0000000015.mp4"),
    ]


def test_params_run_only_when_films_are_asked_for(paths, capsys):
    paths.params.write_text(f"open({str(paths.root / 'RUN')!r}, 'w')")
    with_arguments(report, ["report", str(paths.root)])()
    out, err = capsys.readouterr()
    assert out == f"{paths.root}/report.html\n"
    assert err == ("The report lacks films of 3 policies: --film makes them, and runs "
                   f"{paths.params} for that.\n")  # fmt: skip
    assert not (paths.root / "RUN").exists() and film_names(paths) == []
    with_arguments(report, ["report", str(paths.root), "--film"])()
    assert (paths.root / "RUN").exists()


def test_a_film_is_a_file_of_the_folder_itself(paths, tmp_path):
    (tmp_path / "secret").write_text("my key")
    one, two, three = (paths.videos / paths.policy_checkpoint(step).name for step in (10, 15, 20))
    one.mkdir(parents=True)
    (one / "episode_0.mp4").symlink_to(tmp_path / "secret")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "episode_0.mp4").write_text("my key")
    two.symlink_to(tmp_path / "elsewhere")
    three.mkdir()
    (three / "episode_0.mp4").symlink_to("../../config.json")
    paths.training_videos.mkdir()
    (paths.training_videos / f"{one.name}.mp4").symlink_to("nowhere")
    (paths.videos / "policy_checkpoint_²").mkdir()
    (paths.videos / "policy_checkpoint_²" / "episode_0.mp4").write_text("no train step")
    assert find_films(paths, []) == {}
    assert "<video" not in make_page(paths)
    # A folder that is on another disk, or a film under a second name, is still its own.
    paths.videos.rename(tmp_path / "large_disk")
    paths.videos.symlink_to(tmp_path / "large_disk")
    film = paths.videos / paths.policy_checkpoint(30).name / "episode_0.mp4"
    film.parent.mkdir()
    (paths.videos / "kept.mp4").write_text("film")
    film.symlink_to("../kept.mp4")
    assert list(find_films(paths, []).values()) == [film]


def test_without_new_films_those_that_there_are_are_shown(paths):
    paths.training_videos.mkdir(parents=True)
    for step in (20, 30, 40):
        (paths.training_videos / f"{paths.policy_checkpoint(step).name}.mp4").write_text("film")
    before = film_names(paths)
    report(paths.root, film=False)
    assert film_names(paths) == before
    points = [EvaluationPoint(step, step, 1.0, [step - 50.0]) for step in (20, 30, 40)]
    assert list(find_films(paths, points)) == [
        "first of the filmed policies, train step 20",
        "middle of the filmed policies, train step 30",
        "best of the filmed policies, train step 40",
    ]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ("1 +", "The report lacks films of 3 policies: ConfigError: "),
        (PARAMS.replace("return gym", "raise ValueError('no arm')\n        return gym"),
         "The report lacks films of 3 policies: ValueError: no arm"),
        (PARAMS.replace('seed=seed)', 'seed=seed).gym and None'),
         # Wrong input in a process that has not run an episode yet; later it is a failure.
         "The report lacks films of 3 policies: (ConfigError: )?TrainParams.env_ctor returned a "),
        (PARAMS.replace("        return ", "        environment = ")
         + "        environment.render = None\n        return environment\n",
         "No video of episode_0 and later: step 1 failed with TypeError: "),
    ],
)  # fmt: skip
def test_a_report_does_without_films_that_cannot_be_made_and_says_why(
    paths, params, message, capsys
):
    paths.params.write_text(params)
    report(paths.root, film=True)
    out, err = capsys.readouterr()
    assert out == f"{paths.root}/report.html\n"
    assert re.match(message, err) and err.count("\n") == 1
    assert "<video" not in make_page(paths)
    assert not list(paths.videos.rglob("*.mp4*"))


def test_filming_shows_how_far_it_is(paths):
    class Screen(io.StringIO):
        def isatty(self):
            return True

    screen = Screen()
    make_films(paths, [], Terminal(screen, period_secs=0.0))
    assert "filming policy_checkpoint_0000000020 (3 of 3): step 5 of 5" in screen.getvalue()
