"""No name of a file or folder is ever evaluated as a command."""

import os
import pathlib
import re
import subprocess

import pytest

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.launch.local.places import Service
from tfagents_system.launch.local.service_dirs import write_service_dirs
from tfagents_system.launch.local.variables import read_variables

PROJECT = pathlib.Path(__file__).parents[2]
NAMES = ["x$(touch PWNED)", "x`touch PWNED`", "x';touch PWNED;'", 'x";touch PWNED;"',
         "x\ntouch PWNED", "x\\$(touch PWNED)", "a[$(touch PWNED)]"]  # fmt: skip
# Commands of bash that evaluate their arguments, or expand a name in them once more.
EVALUATES = re.compile(
    r"""(?:^|[;&|(]|\b(?:if|then|do|else))\s*(?:eval\s|unset\s+(?:-\w+\s+)?["']?\w+\[[^]]*\$|\[\[\s+-v\s+\S*\[|"""
    r"""(?:bash|sh)\s+-\w*c\s+"|trap\s+"|ssh\s|xargs\s|read\s[^#]*\w+\[|printf\s+-v\s+\S*\[)"""
)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ending", ["exit 3", ': "${ROBOT:?is missing}"'])
def test_the_name_of_a_variables_file_is_only_shown(tmp_path, monkeypatch, name, ending):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / f"{name}_variables.sh"
    file.write_text(f"SAC_EXP_NAME=a\n{ending}\n")
    with pytest.raises(ConfigError, match="ended this script") as raised:
        read_variables(file, {"PATH": os.environ["PATH"]})
    assert file.name in str(raised.value)
    assert not (tmp_path / "PWNED").exists()


@pytest.mark.parametrize("name", NAMES)
def test_the_script_that_trains_only_shows_it_too(tmp_path, name):
    file = tmp_path / f"{name}_variables.sh"
    file.write_text("exit 3\n")
    command = [PROJECT / "run_script.sh", file]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (78, "")
    assert f"{file.name} ended this script" in done.stderr
    assert not (tmp_path / "PWNED").exists() and not (PROJECT / "PWNED").exists()


@pytest.mark.parametrize("name", NAMES)
def test_the_folders_of_services_may_have_any_name(tmp_path, name):
    project = tmp_path / name
    paths = ExperimentPaths(project / "logs" / "e")
    paths.root.mkdir(parents=True)
    write_service_dirs(
        [Service("replay", ("true", name), (0,), {})], paths.services, paths, project
    )
    subprocess.run([paths.services / "replay" / "run"], cwd=tmp_path, timeout=60, check=False)
    assert not list(tmp_path.rglob("PWNED"))


def scripts():
    command = ["git", "ls-files", "*.sh", "*.sbatch", ":!tests"]
    return subprocess.check_output(command, cwd=PROJECT, text=True).split()


def test_scripts_evaluate_no_text():
    found = [
        (script, line)
        for script in scripts()
        for line in (PROJECT / script).read_text().splitlines()
        if EVALUATES.search(line.partition(" # ")[0])
    ]
    assert found
    # The name is quoted by %q.
    assert [(script, line) for script, line in found if 'trap "die $_file"\'' not in line] == []


@pytest.mark.parametrize(
    "line",
    [
        'eval "$x"',
        'unset "group[$1]"',
        "[[ -v group[$x] ]]",
        'bash -c "echo $x"',
        'trap "rm $x" EXIT',
    ],
)
def test_what_evaluates_is_found(line):
    assert EVALUATES.search(line)
