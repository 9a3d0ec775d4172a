"""Real installs: what pip and uv do in a .venv of setup.sh."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig

import pytest

PROJECT = pathlib.Path(__file__).parents[2]

pytestmark = pytest.mark.system

# Not safety-gymnasium 1.0.0: it pins pygame 2.1.0, which has no build for Python 3.11.
SIMULATORS = [
    "gymnasium-robotics", "metaworld", "PyFlyt", "panda-gym", "robosuite", "highway-env",
    "gym-aloha", "gym-pusht", "myosuite", "minigrid", "ale-py", "pettingzoo", "minari",
]  # fmt: skip
# A tracked dict in a plain program, which does not import this project.
USE_DICT = """
import tensorflow as tf
module = tf.Module()
module.parts = {"observation": tf.constant([3.0])}
print(tf.function(lambda parts: 2 * parts["observation"])(module.parts).numpy())
"""


def run(*command: object, **env: str) -> subprocess.CompletedProcess[str]:
    ours = ("PYTHONPATH", "WRAPT_DISABLE_EXTENSIONS", "VIRTUAL_ENV", "CONDA_PREFIX")
    environ = {name: value for name, value in os.environ.items() if name not in ours} | env
    return subprocess.run(
        [str(word) for word in command], env=environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}, cwd="/",
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240,
    )  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def network(tmp_path_factory):
    folder = tmp_path_factory.mktemp("download")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder]
    done = run(*pip, "typing-extensions")
    if done.returncode:
        pytest.skip(f"no package index can be reached: {done.stderr.strip().splitlines()[-1]}")


@pytest.fixture
def project(tmp_path) -> pathlib.Path:
    return copy_to(tmp_path / "my project")


def copy_to(folder: pathlib.Path) -> pathlib.Path:
    """Makes a copy of what setup.sh works with."""
    shutil.copytree(PROJECT / "tfagents_system", folder / "tfagents_system")
    shutil.copytree(PROJECT / "locks", folder / "locks")
    for name in ("setup.sh", "pyproject.toml"):
        shutil.copy(PROJECT / name, folder)
    return folder


def names_in(site_packages: pathlib.Path) -> set[str]:
    found = site_packages.glob("*.dist-info")
    return {path.name.partition("-")[0].lower().replace("_", "-") for path in found}


def set_up(project: pathlib.Path) -> pathlib.Path:
    """Runs setup.sh where this Python's packages are there already; returns site-packages."""
    assert run(sys.executable, "-m", "venv", project / ".venv").returncode == 0
    (site_packages,) = (project / ".venv/lib").glob("python3.*/site-packages")
    (site_packages / "this_environment.pth").write_text(sysconfig.get_path("purelib"))
    done = run(project / "setup.sh")
    assert done.returncode == 0, done.stderr
    return site_packages


@pytest.fixture(scope="module")
def python(tmp_path_factory) -> pathlib.Path:
    """Python of a .venv that setup.sh has made."""
    project = copy_to(tmp_path_factory.mktemp("project"))
    set_up(project)
    return project / ".venv/bin/python"


@pytest.mark.parametrize("package", SIMULATORS)
def test_simulators_can_be_installed_next_to_the_locked_packages(python, package):
    pip = [python, "-m", "pip", "install", "--dry-run", "--quiet", "--report", "-"]
    done = run(*pip, package)
    assert done.returncode == 0, done.stderr
    installed = {each["metadata"]["name"].lower() for each in json.loads(done.stdout)["install"]}
    assert package.lower() in {name.replace("_", "-") for name in installed}
    assert not installed & {"tensorflow", "tf-agents", "dm-reverb", "numpy", "protobuf", "keras"}


def test_packages_of_the_user_change_no_locked_one_and_tensorflow_works(project):
    site_packages = set_up(project)
    before = names_in(site_packages)

    python = project / ".venv/bin/python"
    # Their newest versions want typing-extensions >= 4.14, protobuf >= 5 and NumPy 2.
    wanted = ["pydantic", "onnx"]
    done = run(python, "-m", "pip", "install", "--quiet", "--upgrade", *wanted)
    assert done.returncode == 0, done.stderr
    added = names_in(site_packages) - before
    assert added >= {"pydantic", "onnx"}
    lines = (project / "locks/base.lock").read_text().splitlines()
    locked = {line.partition("==")[0] for line in lines if "==" in line}
    assert added & locked == set()
    done = run(python, "-c", USE_DICT)
    assert (done.stdout, done.returncode) == ("[6.]\n", 0), done.stderr
    assert run(project / "setup.sh").stderr == ""


def test_uv_makes_venv_where_path_has_no_right_python(project, tmp_path):
    """uv finds this Python where it keeps those that it downloads; the download is not shown."""
    if sys.version_info[:2] != (3, 11):
        pytest.skip("the tests do not run on Python 3.11, which setup.sh asks uv for")
    uv = shutil.which("uv")
    assert uv, "uv is one of the test packages"
    (project / "locks/base.lock").write_text("")  # what uv brings is enough to look at
    managed = tmp_path / "managed"
    version = ".".join(str(part) for part in sys.version_info[:3])
    here = managed / f"cpython-{version}-linux-x86_64-gnu"
    here.mkdir(parents=True)
    for folder in ("bin", "lib", "include"):
        (here / folder).symlink_to(pathlib.Path(sys.base_prefix, folder))
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "uv").symlink_to(uv)
    for name in ("python3", "python", "python3.10", "python3.11"):
        (tools / name).write_text("#!/bin/sh\necho 3.13\n")
        (tools / name).chmod(0o755)
    path = f"{tools}:{os.environ['PATH']}"
    env = {"PATH": path, "HOME": str(tmp_path), "PYENV_ROOT": str(tmp_path)}
    of_uv = {"UV_PYTHON_INSTALL_DIR": str(managed), "UV_PYTHON_PREFERENCE": "only-managed"}
    done = run(project / "setup.sh", **env, **of_uv, UV_PYTHON_DOWNLOADS="never")
    assert done.returncode == 0, done.stderr
    assert "making .venv with uv" in done.stderr
    assert done.stdout.startswith(f"{project}/.venv/bin")
    python = project / ".venv/bin/python"
    done = run(python, "-c", "import sys; print(sys.version_info[:2])")
    assert done.stdout == "(3, 11)\n"
    assert "\nuv = " in (project / ".venv/pyvenv.cfg").read_text()
