"""Python's environment as interrupted installations and strangers leave it."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

REPO = pathlib.Path(__file__).parents[2]
METADATA = "Metadata-Version: 2.1\nName: {}\nVersion: {}\n"
# What each leaves in a folder of sys.path: the text of each file; None for an empty folder.
BROKEN = {
    "a folder of metadata without any": {"x.dist-info/": None},
    "one without a name": {".dist-info/": None},
    "an egg without metadata": {"old.egg-info/": None},
    "what an interrupted pip leaves": {"~umpy-1.26.4.dist-info/": None},
    "no metadata of a package that is needed": {"numpy-9.0.dist-info/": None},
    "no version": {"x-1.0.dist-info/METADATA": "Name: x\n"},
    "no text": {"x-1.0.dist-info/METADATA": b"\xff\xfe\x00"},
    "a folder where a file should be": {"x-1.0.dist-info/METADATA/": None},
    "a link to nowhere": {"x.egg-link": "/nowhere\n.\n"},
    "a folder without modules": {"gymnasium/": None},
    "a version of one's own": {"x-1.dist-info/METADATA": METADATA.format("x", "ours")},
    "a plugin of gym that is gone": {
        "x-1.0.dist-info/METADATA": METADATA.format("x", "1.0"),
        "x-1.0.dist-info/entry_points.txt": "[gym.envs]\n__root__ = is_gone:register\n",
    },
    "a plugin of gym that fails": {
        "x-1.0.dist-info/METADATA": METADATA.format("x", "1.0"),
        "x-1.0.dist-info/entry_points.txt": "[gym.envs]\n__root__ = it_fails:register\n",
        "it_fails.py": "raise OSError('no motor')\n",
    },
    "entry points that are none": {
        "x-1.0.dist-info/METADATA": METADATA.format("x", "1.0"),
        "x-1.0.dist-info/entry_points.txt": "not [[ an ini file\n===\n",
    },
}  # fmt: skip
# What all programs and commands do: check packages, record them, import gym as TF-Agents does.
USE = """
import json, pathlib
import tfagents_system
from tfagents_system.core.installed import all_versions
from tfagents_system.launch.checks.packages import check_packages
check_packages()
found = all_versions()
import gym
print(json.dumps([found["numpy"], found["gym"], "Pendulum-v1" in gym.envs.registry.env_specs]))
"""


def leave(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            path.mkdir(exist_ok=True)
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())


def run(code, *folders):
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (REPO, *folders)))}
    return subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, timeout=240
    )


@pytest.mark.parametrize("what", [*BROKEN, "all of it"])
def test_what_others_have_left_stops_nothing(tmp_path, what):
    chosen = BROKEN if what == "all of it" else [what]
    for name in chosen:
        leave(tmp_path / name, BROKEN[name])
    (tmp_path / "file").touch()
    done = run(USE, *(tmp_path / name for name in chosen), tmp_path / "file", tmp_path / "nowhere")
    assert done.returncode == 0, done.stderr
    numpy, gym, is_there = json.loads(done.stdout)
    assert numpy != "9.0" and gym and is_there
    if "plugin" in what:
        assert "Note: the plugin " in done.stderr and "of gym is left out: " in done.stderr


def test_two_versions_of_one_package_pass_if_one_of_them_fits(tmp_path):
    leave(tmp_path, {f"numpy-{v}.dist-info/METADATA": METADATA.format("numpy", v)
                     for v in ("1.26.4", "2.4.1")})  # fmt: skip
    assert run(USE, tmp_path).returncode == 0
    leave(tmp_path / "worse", {f"numpy-{v}.dist-info/METADATA": METADATA.format("numpy", v)
                               for v in ("2.4.0", "2.4.1")})  # fmt: skip
    done = run(USE, tmp_path / "worse")
    assert done.returncode != 0 and "2.4.1" in done.stderr and "but tensorflow needs" in done.stderr


def test_gym_prints_no_notice_about_its_successor():
    program = "import gym_notices.notices as n, tfagents_system, gym; print(n.notices)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout == "{}\n" and "unmaintained" not in done.stderr


def test_a_second_finder_of_packages_finds_no_second_version():
    program = (
        "import importlib.machinery, sys; "
        "sys.meta_path.append(importlib.machinery.PathFinder); "  # as backports of metadata do
        "from tfagents_system.core import installed; "
        "print(installed.versions('tensorflow') == [installed.all_versions()['tensorflow']])"
    )
    done = run(program)
    assert done.stdout == "True\n", done.stderr
