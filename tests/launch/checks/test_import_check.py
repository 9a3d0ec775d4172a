import ast
import importlib.util
import pathlib
import re
import sys
import zipfile

import pytest

from tfagents_system.core.errors import ConfigError
from tfagents_system.launch.checks.import_check import check_imports

PROJECT = pathlib.Path(__file__).parents[3]
FILES = {
    "robots/__init__.py": "from .arms import *\nraise SystemExit('executed')",
    "robots/arms.py": "",
    "tasks/__init__.py": "import os as system\nGOAL, (a, b) = 1, (2, 3)\n"
    "try:\n    import fast\nexcept ImportError:\n    fast = None\n",
    "tasks/reach.py": "class Reach: pass\ndef make(): pass\n",
    "tasks/extra/readme.txt": "",
    "plain.py": "VALUE = 1\n",
    "lazy/__init__.py": "def __getattr__(name): return name\n",
    "dynamic/__init__.py": "import sys\nsys.modules['dynamic.made'] = sys\n",
    "space/inner/thing.py": "",
    "adds_folders.py": "import sys\nsys.path.append('/opt/simulator')\n",
    "broken.py": "x = (",
    "random.py": "",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("user")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def check(folder: pathlib.Path, text: str) -> None:
    path = folder / "my_params.py"
    path.write_text(text)
    check_imports(ast.parse(text), path, (folder, PROJECT, PROJECT / "tfagents_system"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import os\n\nimport no_such_robot", ":3: imports no_such_robot, which is neither"),
        ("import no_such_robot.arm", "imports no_such_robot, which is neither installed in this"),
        ("from . import arm", "from . import arm: a params file is not part of a package"),
    ],
)
def test_what_is_surely_missing_is_refused_with_file_and_line(folder, text, message):
    with pytest.raises(ConfigError, match=re.escape(message)) as error:
        check(folder, text)
    assert str(error.value).startswith(f"{folder}/my_params.py:")


@pytest.mark.parametrize(
    "text",
    [
        "import os.path, xml.etree.ElementTree, collections.abc, concurrent.futures",
        "import numpy as np, numpy.linalg, numpy.random.mtrand",
        "from distutils.version import LooseVersion; import distutils.util",  # of setuptools
        "from numpy.linalg import whatever_it_binds",
        "from six.moves import urllib; import six.moves.urllib.parse",
        "import tensorflow as tf; import tensorflow.keras.layers; import tensorflow.made_later",
        "from tensorflow.keras import layers; import tensorflow_probability as tfp",
        "from tf_agents.environments import suite_gym; import tf_agents.environments.suite_gym",
        "from gym.envs.classic_control import pendulum; import gym.wrappers",
        "import google.protobuf; from google.protobuf import text_format",
        "import matplotlib.pyplot as plt; from mpl_toolkits.mplot3d import Axes3D",
        "import pybullet, pybullet_envs; from pybullet_envs.bullet import minitaur_gym_env",
        "from tfagents_system.environments import gym_adapter, gymnasium_adapter, pybullet_adapter",
        "from tfagents_system.train_params_base import TrainParamsBase",
        "from tfagents_system.minitaur_params import *; from minitaur_params import TrainParams",
        "import workers",
        "import robots.arms; from robots import anything",
        "from tasks import GOAL, a, b, fast, system, reach, extra; import tasks.extra",
        "from tasks.reach import Reach, make",
        "from lazy import anything",
        "import tasks.reech; from plain import VALU; import numpy.nonsense",  # Python finds it
        "import dynamic.made; import dynamic.sub.module; from dynamic import anything",
        "import space.inner.thing; from space import inner; from space.inner import thing",
        "import broken; from broken import x",
        "import random; from random import uniform",
        "import sys; sys.path.insert(0, 'elsewhere'); import simulator.arm",
        "import adds_folders; import simulator.arm",
        "try:\n    import simulator\nexcept ImportError:\n    simulator = None",
        "def env_ctor(): import simulator",
        "from __future__ import annotations; import __main__",
    ],
)
def test_what_may_work_passes(folder, text):
    check(folder, text)


def test_the_params_files_of_the_project_pass():
    files = [*(PROJECT / "tfagents_system").glob("*_params.py")]
    files += [*(PROJECT / "benchmarks" / "params").glob("*.py")]
    assert len(files) > 3
    for path in files:
        dirs = (path.parent, PROJECT, PROJECT / "tfagents_system")
        check_imports(ast.parse(path.read_text()), path, dirs)


def test_modules_in_zip_files_pass(folder, monkeypatch):
    with zipfile.ZipFile(folder / "zipped.zip", "w") as archive:
        archive.writestr("zipped_robot/__init__.py", "")
        archive.writestr("zipped_robot/arm.py", "")
    monkeypatch.syspath_prepend(folder / "zipped.zip")
    check(folder, "import zipped_robot.arm; from zipped_robot import arm")


def test_packages_of_editable_installs_pass(folder, tmp_path, monkeypatch):
    """Their finder maps names to folders anywhere, submodules too."""
    (tmp_path / "arm.py").touch()

    class Finder:
        @staticmethod
        def find_spec(name, path=None, target=None):
            origins = {"mapped": tmp_path / "__init__.py", "mapped.arm": tmp_path / "arm.py"}
            if name not in origins:
                return None
            places = [str(tmp_path / "nowhere")] if name == "mapped" else None
            return importlib.util.spec_from_file_location(
                name, origins[name], submodule_search_locations=places
            )

    (tmp_path / "__init__.py").touch()
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder])
    check(folder, "import mapped.arm; from mapped import arm")


def test_nothing_is_imported(folder):
    before = set(sys.modules)
    check(folder, "import xmlrpc.server; import wsgiref.simple_server; import robots.arms")
    assert set(sys.modules) == before


def test_a_neighbour_with_the_name_of_an_installed_module_is_noted(folder):
    path = folder / "my_params.py"
    text = "import tree\nimport yaml\nimport random\nimport gym\nimport tfagents_system\n"
    (folder / "tree.py").write_text("")
    (folder / "random.py").write_text("")  # Python's own is loaded before
    (folder / "gym").mkdir()  # of data, no module
    (note,) = check_imports(ast.parse(text), path, (folder,))
    assert note.startswith(
        f"{path}:1: imports tree, which is {folder / 'tree.py'} and installed as "
    )
    assert note.endswith("yours needs another name.")
