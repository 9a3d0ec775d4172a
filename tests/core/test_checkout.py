import pathlib
import re
import sys

import pytest

from tfagents_system.core import checkout
from tfagents_system.core.checkout import PROJECT, how_to_install, is_checkout, version

METADATA = """Metadata-Version: 2.4
Name: tfagents_system
Version: 7.8.9
Requires-Dist: numpy
Requires-Dist: onnx<1.19; extra == "onnx"
Requires-Dist: onnxruntime; extra == "onnx"
Requires-Dist: dm_control; extra == "dm-control"
Requires-Dist: mujoco<4; sys_platform == "linux" and extra == 'dm-control'
"""


@pytest.fixture
def site_packages(tmp_path, monkeypatch) -> pathlib.Path:
    """As pip leaves the package, in front of all that is installed."""
    (tmp_path / "tfagents_system-7.8.9.dist-info").mkdir()
    (tmp_path / "tfagents_system-7.8.9.dist-info/METADATA").write_text(METADATA)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_a_checkout_has_the_version_of_pyproject_whatever_is_installed(site_packages):
    text = (PROJECT / "pyproject.toml").read_text()
    assert version() == re.search(r'^version = "(.*)"$', text, re.M)[1] != "7.8.9"
    assert is_checkout()


def test_what_pip_has_installed_has_the_version_of_its_metadata(site_packages):
    assert (version(site_packages), is_checkout(site_packages)) == ("7.8.9", False)


@pytest.mark.parametrize(
    "content",
    [b'[project]\nname = "another"\nversion = "1.0"\n', b"\xff", b'name = "tfagents_system"\n'],
    ids=["of another package", "no text", "no version"],
)
def test_a_pyproject_that_is_not_ours_makes_no_checkout(site_packages, content):
    (site_packages / "pyproject.toml").write_bytes(content)
    assert (version(site_packages), is_checkout(site_packages)) == ("7.8.9", False)


@pytest.mark.parametrize(
    ("extra", "packages"),
    [("onnx", "'onnx<1.19' onnxruntime"), ("dm_control", "dm_control 'mujoco<4'")],
)
def test_the_packages_of_an_extra_are_installed_by_what_is_there(site_packages, extra, packages):
    assert how_to_install(extra) == f"./setup.sh --with {extra}"
    by_pip = f"{sys.executable} -m pip install {packages}"
    assert how_to_install(extra, site_packages) == by_pip


def test_every_extra_that_the_code_names_is_one_of_pyproject():
    section = (PROJECT / "pyproject.toml").read_text()
    section = section.partition("[project.optional-dependencies]\n")[2].partition("\n\n")[0]
    extras = set(re.findall(r"^(\w+) = ", section, re.M))
    files = pathlib.Path(checkout.__file__).parents[1].rglob("*.py")
    call = re.compile(r"how_to_install\([\"'](\w+)[\"']")
    named = {name for file in files for name in call.findall(file.read_text())}
    assert {"onnx", "dm_control", "optuna"} <= named <= extras
