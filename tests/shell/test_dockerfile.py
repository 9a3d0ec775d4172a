"""The Dockerfile: its steps and setup.sh agree; built and run where there is an engine."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from typing import NamedTuple

import pytest

from tfagents_system.core.checkout import PROJECT, version

ENGINES = ("docker", "podman")


class Step(NamedTuple):
    keyword: str
    text: str


def stages(text: str) -> list[list[Step]]:
    """The steps of each stage, which begins with its FROM."""
    text = re.sub(r"^\s*#.*\n", "", text, flags=re.M)
    found: list[list[Step]] = []
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        if line.strip():
            step = Step(*line.strip().split(maxsplit=1))
            if step.keyword == "FROM":
                found.append([])
            found[-1].append(step)
    return found


BUILD, FINAL = stages((PROJECT / "Dockerfile").read_text())


def texts(stage: list[Step], keyword: str) -> list[str]:
    return [step.text for step in stage if step.keyword == keyword]


def debian_packages(stage: list[Step]) -> set[str]:
    """What the first RUN installs."""
    words = shlex.split(texts(stage, "RUN")[0].partition("apt-get install")[2].partition("&&")[0])
    return {word for word in words if not word.startswith("-")}


def test_what_setup_would_install_as_root_is_in_both_stages():
    setup = (PROJECT / "setup.sh").read_text()
    assert "provide daemontools " in setup
    assert {"ca-certificates", "daemontools", "g++", "python3"} <= debian_packages(BUILD)
    assert {"daemontools", "python3", "tini"} <= debian_packages(FINAL)
    # .venv of the first stage has links to the Python of the second.
    assert texts(BUILD, "FROM")[0].split()[0] == texts(FINAL, "FROM")[0]


def test_setup_and_sac_find_all_that_they_read_in_what_is_copied(tmp_path):
    folder = tmp_path / "image/opt/sac"
    folder.mkdir(parents=True)
    kept = {line.removeprefix("!") for line in (PROJECT / ".dockerignore").read_text().splitlines()
            if line.startswith("!")}  # fmt: skip
    for copy in texts(BUILD, "COPY"):
        *sources, target = copy.split()
        assert set(sources) <= kept, f".dockerignore leaves out one of {sources}"
        for source in sources:
            if (PROJECT / source).is_dir():
                ignored = shutil.ignore_patterns("__pycache__")  # the ops are there: no build
                shutil.copytree(PROJECT / source, folder / target, ignore=ignored)
            else:
                shutil.copy(PROJECT / source, folder / target)
    assert texts(BUILD, "WORKDIR") == ["/opt/sac"]
    (install,) = (run for run in texts(BUILD, "RUN") if "setup.sh" in run)
    install = install.partition(" && ")[0]
    # An environment with the packages takes the place of the one that setup.sh would make.
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "VIRTUAL_ENV": sys.prefix}
    done = subprocess.run(
        ["sh", "-c", install], cwd=folder, env=environ | {"EXTRAS": "box2d,mujoco"},
        capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert (done.returncode, done.stdout.splitlines()) == (0, [f"{sys.prefix}/bin"]), done.stderr
    python = [sys.executable, "-m", "tfagents_system"]
    done = subprocess.run([*python, "--version"], cwd=folder, env=environ | {
        "PYTHONPATH": str(folder)}, capture_output=True, text=True, timeout=100)  # fmt: skip
    assert done.stdout == f"sac {version()}\n", done.stderr
    assert not (folder / ".venv").exists()


def test_an_image_runs_as_a_user_without_rights_under_a_process_1_that_hands_signals_on():
    (user,) = texts(FINAL, "USER")
    assert user not in ("root", "0") and f" {user} " in texts(FINAL, "RUN")[1]
    after = [step.keyword for step in FINAL][[s.keyword for s in FINAL].index("USER") :]
    assert "RUN" not in after and "COPY" not in after
    assert json.loads(texts(FINAL, "ENTRYPOINT")[0]) == ["tini", "--"]  # no shell in between
    assert texts(FINAL, "VOLUME") == texts(FINAL, "WORKDIR") == ["/runs"]
    (path,) = texts(FINAL, "ENV")
    assert path.startswith("PATH=/opt/sac/.venv/bin:")
    assert texts(FINAL, "COPY") == ["--from=build /opt/sac /opt/sac"]


def engine() -> str | None:
    for name in ENGINES:
        if (
            shutil.which(name)
            and not subprocess.run([name, "info"], capture_output=True).returncode
        ):
            return name
    return None


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_an_image_is_built_trains_and_saves_when_it_is_stopped(tmp_path):
    name = engine()
    if name is None:
        pytest.skip(f"neither of {' and '.join(ENGINES)} answers")
    tag, container = f"sac-test-{os.getpid()}", f"sac-test-{os.getpid()}"
    subprocess.run([name, "build", "--tag", tag, str(PROJECT)], check=True, timeout=1500)
    tmp_path.chmod(0o777)
    try:
        train = ["sac", "train", "--env", "Pendulum-v1", "--set", "checkpoint_period_itrs=1000000"]
        volume = f"{tmp_path}:/runs"
        run = [name, "run", "--detach", "--name", container, "--volume", volume, tag, *train]
        subprocess.run(run, check=True, timeout=60)
        status = tmp_path / "logs/pendulum/status/learner.json"
        deadline = time.monotonic() + 120
        while not (status.exists() and json.loads(status.read_text()).get("train_step")):
            assert time.monotonic() < deadline
            time.sleep(0.5)
        subprocess.run([name, "stop", "--time", "220", container], check=True, timeout=270)
        inspect = [name, "inspect", "--format", "{{.State.ExitCode}}", container]
        code = subprocess.run(inspect, check=True, capture_output=True, text=True).stdout
        assert code.strip() == "143"
        assert list((tmp_path / "logs/pendulum/checkpoints").glob("*/manifest.json"))
    finally:
        subprocess.run([name, "rm", "--force", container], timeout=60)
        subprocess.run([name, "rmi", "--force", tag], timeout=60)
