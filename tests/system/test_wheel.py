"""The wheel: what is in it, what it asks for, and a run from it in another folder."""

import ast
import email
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions

import pytest
from packaging.requirements import Requirement
from system.tiny_run import PROJECT, TINY

from tfagents_system.core.checkout import NAME, version
from tfagents_system.kernels.cpu import cpu_flags, missing_flags

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

# Not code, but also not needed by any code.
MADE_HERE = ("*.pyc", "*.so", "__pycache__")


def run(*command: object, cwd: pathlib.Path, timeout: float = 400) -> str:
    """Returns what a command prints; without the checkout's code and tools."""
    ours = ("PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX")
    environ = {name: value for name, value in os.environ.items()
               if name not in ours and not name.startswith(("SAC_", "SLURM_"))}  # fmt: skip
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=environ, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> pathlib.Path:
    """Built from a copy, because setuptools writes into the folder that it builds."""
    folder = tmp_path_factory.mktemp("wheel")
    ignored = shutil.ignore_patterns(*MADE_HERE)
    shutil.copytree(PROJECT / NAME, folder / "source" / NAME, ignore=ignored)
    shutil.copy(PROJECT / "pyproject.toml", folder / "source")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps"]
    run(*pip, "--no-index", "--wheel-dir", folder, folder / "source", cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel) -> pathlib.Path:
    """The bin folder of an environment with the wheel, and with the packages of this one."""
    environment = wheel.parent / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", environment, cwd=wheel.parent)
    (site_packages,) = (environment / "lib").glob("python3.*/site-packages")
    (site_packages / "these.pth").write_text(sysconfig.get_path("purelib"))
    python = environment / "bin/python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps"]
    run(*pip, "--no-index", "--ignore-installed", wheel, cwd=wheel.parent)
    return environment / "bin"


@pytest.fixture(scope="module")
def metadata(wheel) -> email.message.Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name))


def test_the_wheel_holds_every_file_of_the_package_and_scripts_that_can_be_run(wheel):
    files = {path for path in (PROJECT / NAME).rglob("*")
             if path.is_file() and not any(path.match(made) for made in MADE_HERE)}  # fmt: skip
    with zipfile.ZipFile(wheel) as archive:
        held = {info.filename: info.external_attr >> 16 for info in archive.infolist()}
    expected = {str(path.relative_to(PROJECT)): path.stat().st_mode for path in files}
    assert len(expected) > 200
    code = {name for name in held if ".dist-info/" not in name}
    assert code == set(expected)
    for name, mode in expected.items():
        assert bool(held[name] & 0o100) == bool(mode & 0o100), name


def holds(requirement: Requirement, extra: str = "") -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def brought_by(requirement: Requirement) -> set[str]:
    """The names of what is asked for, and of what its own extras add."""
    names = {requirement.name}
    for extra in requirement.extras:
        needs = map(Requirement, distribution(requirement.name).requires or ())
        names |= {need.name for need in needs if holds(need, extra) and not holds(need)}
    return {name.lower().replace("_", "-") for name in names}


def test_the_wheel_asks_for_every_package_that_is_imported_and_for_versions_that_work(metadata):
    assert (metadata["Name"], metadata["Version"]) == (NAME, version())
    requirements = [Requirement(text) for text in metadata.get_all("Requires-Dist")]
    always = set().union(*(brought_by(need) for need in requirements if holds(need)))
    optional = {name for extra in metadata.get_all("Provides-Extra") for need in requirements
                if holds(need, extra) for name in brought_by(need)}  # fmt: skip
    imported = set()
    for path in (PROJECT / NAME).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(node.module.partition(".")[0])
    of_import = packages_distributions() | {"google": ["protobuf"]}  # many bring google.*
    imported -= {NAME, *sys.stdlib_module_names}
    asked_for = {module: {name.lower().replace("_", "-") for name in of_import[module]}
                 for module in imported}  # fmt: skip
    undeclared = {module for module, names in asked_for.items() if not names & (always | optional)}
    assert undeclared == set()
    # The same versions as the lock files, which this environment has.
    for need in requirements:
        try:
            found = distribution(need.name).version
        except PackageNotFoundError:
            continue
        assert need.specifier.contains(found, prereleases=True), f"{need}, but {found} is locked"


def test_a_run_from_the_wheel_in_another_folder(installed, tmp_path):
    sac = installed / "sac"
    assert run(sac, "--version", cwd=tmp_path) == f"sac {version()}\n"

    output = run(sac, "train", "--env", "Pendulum-v1", "--seed", "1", "--set", *TINY, cwd=tmp_path)

    assert "Training is finished" in output
    can_be_compiled = shutil.which("c++") and not missing_flags(cpu_flags())
    was_compiled = re.search(r"Compiled ops: (\S+) was built", output)
    assert bool(was_compiled) == bool(can_be_compiled)
    if was_compiled:
        assert pathlib.Path(was_compiled[1]).is_relative_to(installed.parent)
    exp_dir = tmp_path / "logs/pendulum"
    assert json.loads((exp_dir / "finished.json").read_text())["num_iter"] == 2
    provenance = json.loads((exp_dir / "provenance.json").read_text())
    assert (provenance["version"], provenance["git_hash"]) == (version(), None)
    log = (exp_dir / "stdout/learner.log").read_text()
    assert str(PROJECT) not in log.replace(f"{PROJECT}/.venv", "")  # but for installed libraries

    # Each of the commands that read a file of the package, or write one of the user's.
    table = run(sac, "eval", exp_dir, "--num_episodes", "1", "--novideo", cwd=tmp_path)
    assert "mean" in table
    run(sac, "export", exp_dir, "--to", "numpy", "--output", "exported", cwd=tmp_path)
    assert list((tmp_path / "exported").rglob("run_policy.py"))
    run(sac, "report", exp_dir, "--nofilm", cwd=tmp_path)
    assert "<html" in next(tmp_path.rglob("report*.html")).read_text()
    run(sac, "new", "mine", cwd=tmp_path)
    checked = run(sac, "check", "mine_variables.sh", "--nopredict", cwd=tmp_path)
    assert re.search(r"^seeding +ok ", checked, re.M)
