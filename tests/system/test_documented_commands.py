"""Runs the commands of README and docs, in a copy of the project.

The blocks of a page are one shell session. A run starts as it would, but instead of its programs
gets the outcome of an experiment that was trained before, with tiny settings. What a
test elsewhere runs, or takes hours, is in ELSEWHERE.
"""

import concurrent.futures
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import pytest
from system.tiny_run import TINY

from tfagents_system.commands.table import COMMANDS, function_of
from tfagents_system.core.programs.command_line import flags_of

PROJECT = pathlib.Path(__file__).parents[2]
PAGES = ["README.md", *sorted(str(p.relative_to(PROJECT)) for p in PROJECT.glob("docs/**/*.md"))]

CI = ".ci/run"
EVALUATION = "tests/programs/test_run.py::test_table_csv_and_videos"
CHECK = "tests/commands/test_check.py::test_environment_without_a_fault_is_right_in_every_row"
WHEEL = "tests/system/test_wheel.py::test_a_run_from_the_wheel_in_another_folder"
IMAGE = "tests/shell/test_dockerfile.py::test_an_image_is_built_trains_and_saves_when_it_is_stopped"
SLURM = "tests/slurm/test_runs.py::test_"
SLURM_JOBS = SLURM + "an_array_of_experiments_and_a_job_with_too_few_cpus"
SLURM_RUN = SLURM + "a_cancelled_run_over_several_hosts_resumes_and_trains_to_its_end"
# Of each command that is not run here: what runs it.
ELSEWHERE = {
    "sac sweep my_variables.sh --grid discount=0.98,0.99 train_batch_size=128,256 --seed 1 2 3 "
    "--parallel 2":
        "tests/system/test_sweep.py::test_a_sweep_ranks_its_trials_and_trains_none_twice",
    "sac demonstrations convert my_data_set --output my_demonstrations --missing_reward 0":
        "tests/demonstrations/test_lerobot.py::"
        "test_without_rewards_the_data_set_is_refused_unless_a_reward_is_given",
    "sac record --env Pendulum-v1 --keyboard":
        "tests/commands/test_record_person.py::test_a_person_records_episodes_by_keys_in_the_window",
    "sac eval logs/pendulum --num_episodes 5": EVALUATION,
    "sac eval logs/half_cheetah_bullet_seed_1 --num_episodes 5": EVALUATION,
    "python tfagents_system/run.py --params tfagents_system/minitaur_params.py "
    "--exp_dir logs/minitaur --config config/minitaur.json --num_episodes 5 "
    "--checkpoint policy_checkpoint_0000500000 --seed 108": EVALUATION,
    "SAC_PLACEMENT=slurm ./setup.sh":
        "tests/shell/setup/test_tools.py::test_a_cluster_gets_stunnel_with_its_library_without_root",
    "sbatch --cpus-per-task=13 --time=24:00:00 slurm/train.sbatch my_variables.sh": SLURM_JOBS,
    "sbatch --cpus-per-task=13 --array=0-9 slurm/train.sbatch my_variables.sh": SLURM_JOBS,
    "SAC_PLACEMENT=slurm SAC_NUM_COLLECT_WORKERS=64 SAC_WORKERS_PER_SHARE=8 "
    "./run_script.sh my_variables.sh": SLURM_RUN,
    "./setup.sh --with ray": "tests/shell/setup/test_extras.py::test_extras_are_installed_and_kept",
    "SAC_PLACEMENT=ray SAC_NUM_COLLECT_WORKERS=64 SAC_WORKERS_PER_SHARE=8 "
    "./run_script.sh my_variables.sh":
        "tests/ray_cluster/test_runs.py::test_a_run_on_two_nodes_trains_to_its_end",
    "python3.11 -m pip wheel --no-deps --wheel-dir build PROJECT": WHEEL,
    "python3.11 -m pip install build/tfagents_system-*.whl": WHEEL,
    "docker build --tag sac .": IMAGE,
    'docker run --rm --volume "$PWD:/runs" --user "$(id -u):$(id -g)" sac sac train '
    "--env Pendulum-v1": IMAGE,
    "docker stop --time 220 CONTAINER": IMAGE,
    "./run_tests.sh": CI,
    "./run_tests.sh tests/core -x": CI,
    "./run_tests.sh -m system": CI,
    "./run_tests.sh --faults": CI,
    "./run_tests.sh -m slow tests/shell/test_dockerfile.py": IMAGE,
    "bash .ci/run": CI,
    "bash .ci/runs": ".ci/runs",
    "bash .ci/learning": "tests/learning_curves/test_gate.py",
    "./benchmarks/run.sh learner":
        "tests/benchmarks/test_main.py::test_every_command_names_a_program_that_exists",
    ".venv/bin/mkdocs build --strict":
        "tests/test_site.py::test_every_page_of_docs_is_in_the_navigation_of_every_other",
    "sac train --env metaworld:Meta-World/MT1 --env_kwargs env_name=reach-v3 render_mode=rgb_array "
    "--horizon 200 --wrap gymnasium.wrappers.FrameStackObservation:4 --workers 4":
        "tests/commands/projects/test_environment_options.py::test_a_run_with_all_options",
    "sac check arm_variables.sh": CHECK,
    ".venv/bin/sac check training_variables_pendulum.sh": CHECK,
    ".venv/bin/sac export --params tfagents_system/minitaur_params.py "
    "--config config/minitaur.json --exp_dir examples/minitaur --output exported "
    "--to numpy --to onnx --to savedmodel --to tflite":
        "tests/export/test_models.py::test_every_format_acts_as_the_policy_on_1000_observations",
    "sac export logs/ball --to unity":
        "tests/export/test_unity_model.py::test_many_agents_act_at_once_as_the_policy_does",
    "sudo chrt --fifo 10 .venv/bin/sac latency exported":
        "tests/export/test_models.py::test_latency_table_has_a_row_for_each_exported_format",
}  # fmt: skip
# What makes the others short, and gives them what a reader has.
CHANGES = {
    r"--num_episodes \d+": "--num_episodes 1",
    r"(minitaur_params\.py .*)": r"\1 --novideo",
    r"(--seed 1 2) 3( 4)?": r"\1",
    r"(sac profile \S+)": r"\1 0",
    r"(sac clone .*)": r"\1 --steps 20 --held_out 0",
    r"(sac report \S+)(?: --film)?": r"\1 --nofilm",
    r"\bPROJECT\b": "$PROJECT",
    r"\bREPOSITORY\b": "$PROJECT/repository",
}
# In the place of train_script.sh: the outcome of the experiment that was trained.
TRAIN_SCRIPT = """#!/bin/sh
cd {folder} || exit 1
cp -R checkpoints episodes eval finished.json policies running status stdout train "$OLDPWD/$1"
"""


def text_of(page):
    return (PROJECT / page).read_text()


def commands_of(page):
    """Returns the commands of a page's shell blocks."""
    commands = []
    for block in re.findall(r"^```(?:bash|sh)\n(.*?)^```", text_of(page), re.M | re.S):
        block = re.sub(r"\\\n *", "", block)  # continued lines
        block = re.sub(r"[ \t]*# .*", "", block)
        commands += re.findall(r"^\S.*$", block, re.M)
    return commands


@pytest.fixture(scope="module")
def project(trained_cart, tmp_path_factory):
    """A copy of the project, with a project `my` of the user's, and an experiment `first`."""
    copy = tmp_path_factory.mktemp("documented") / "project"
    shutil.copytree(PROJECT, copy, ignore=shutil.ignore_patterns("logs", "tests", "build", ".*"))
    tools = {
        "python": f'exec {shlex.quote(sys.executable)} "$@"',
        "sac": f'exec {shlex.quote(sys.executable)} -m tfagents_system "$@"',
        "activate": f"PATH={shlex.quote(str(copy / '.venv/bin'))}:$PATH",
    }
    (copy / ".venv/bin").mkdir(parents=True)
    for name, text in tools.items():
        write_script(copy / ".venv/bin" / name, f"#!/bin/sh\n{text}\n")
    write_script(copy / "setup.sh", f"#!/bin/sh\necho {shlex.quote(f'{copy}/.venv/bin')}\n")
    subprocess.run(["git", "init", "--quiet", copy / "repository"], check=True)
    (copy / "config/minitaur.json").write_text('{"horizon": 20}')
    shutil.copytree(trained_cart[0] / "logs/cart", copy / "logs/first")
    script = TRAIN_SCRIPT.format(folder=shlex.quote(str(copy / "logs/first")))
    write_script(copy / "tfagents_system/launch/local/train_script.sh", script)
    assert run(copy, "sac new my --from own").returncode == 0
    (copy / "trainer.yaml").write_text("behaviors: {3DBall: {trainer_type: sac}}")
    return copy


def write_script(path, text):
    path.write_text(text)
    path.chmod(0o755)


def run(project, script):
    """Runs a shell script in `project`; its output shows each command."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("SAC_", "SLURM_"))}
    ours = {"PATH": f"{project}/.venv/bin:{os.environ['PATH']}", "PYTHONPATH": str(project),
            "PROJECT": str(project),
            "SAC_GIN_BINDINGS": "; ".join(f"TrainParams.{b}" for b in TINY)}  # fmt: skip
    return subprocess.run(
        ["bash", "-euxc", script], cwd=project, env=clean | ours, timeout=500, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


@pytest.fixture(scope="module")
def outcomes(project):
    """Runs the sessions of all pages, two at a time."""
    scripts = {}
    for page in PAGES:
        script = "\n".join(c for c in commands_of(page) if c not in ELSEWHERE)
        for pattern, replacement in CHANGES.items():
            script = re.sub(pattern, replacement, script)
        scripts[page] = script
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        longest_first = sorted(PAGES, key=lambda page: -len(scripts[page]))
        results = {page: pool.submit(run, project, scripts[page]) for page in longest_first}
        return {page: result.result() for page, result in results.items()}


@pytest.mark.system
@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", [page for page in PAGES if commands_of(page)])
def test_commands_of_a_page_do_what_it_says(outcomes, page):
    assert outcomes[page].returncode == 0, outcomes[page].stdout


@pytest.mark.system
@pytest.mark.timeout(600)
def test_the_tutorial_leaves_what_it_promises(outcomes, project):
    assert outcomes["docs/tutorial.md"].returncode == 0
    arm = project / "arm/logs/arm"
    films = [path.stat().st_size for path in arm.glob("videos/*/episode_0.mp4")]
    assert films and min(films) > 1000
    assert "data:video/mp4" in (arm / "report.html").read_text()
    (policy,) = arm.glob("exports/*/numpy/run_policy.py")
    (snippet,) = re.findall("^```python\n(.*?)^```", text_of("docs/tutorial.md"), re.M | re.S)
    done = subprocess.run(
        [sys.executable, "-c", f"{snippet}\nassert abs(action) <= 1 and action.shape == (1,)"],
        cwd=policy.parent, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def is_there(test):
    """Returns whether a file, or a test "file::name", exists."""
    file, _, name = test.partition("::")
    path = PROJECT / file
    return path.exists() and (not name or f"def {name}(" in path.read_text())


def test_each_command_that_is_not_run_here_is_one_of_a_page_and_run_elsewhere():
    documented = {command for page in PAGES for command in commands_of(page)}
    assert ELSEWHERE.keys() - documented == set()
    assert [test for test in ELSEWHERE.values() if not is_there(test)] == []


def mentions_in(page):
    """Returns the words after `sac` in each code span and command of a page."""
    mentions = re.findall(r"`(?:\S*/)?sac ([a-z][^`]*)`", text_of(page))
    mentions += [c.partition("sac ")[2] for c in commands_of(page) if re.match(r"(\S*/)?sac ", c)]
    return [mention.split() for mention in mentions]


def test_every_mention_of_a_command_has_a_name_and_flags_that_exist():
    wrong = []
    for page in PAGES:
        for command, *arguments in mentions_in(page):
            flags = {word.partition("=")[0] for word in arguments if word.startswith("--")}
            flags = {flag.replace("-", "_").replace("__", "--", 1) for flag in flags}
            if command not in COMMANDS or flags - {*flags_of(function_of(command))}:
                wrong.append((page, command, *arguments))
    assert wrong == []
