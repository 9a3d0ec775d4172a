import pathlib
import sys

import pytest

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings import Settings
from tfagents_system.launch.plan import cpu_table, divide_cpus, make_plan


def make_settings(**variables: str) -> Settings:
    required = {"SAC_EXP_NAME": "e", "SAC_PARAMS": "p.py", "SAC_CONFIG": "c.json"}
    return Settings.from_environ(required | {f"SAC_{k}": v for k, v in variables.items()})


def counts(num_cpus: int, **variables: str) -> tuple[int, int, int, int]:
    """Returns CPUs of replay, learner and each worker, and the number of workers."""
    cpus = divide_cpus(make_settings(**variables), range(num_cpus))
    workers = [ids for name, ids in cpus.items() if name.startswith("worker_")]
    assert len({len(ids) for ids in workers}) == 1
    return len(cpus["replay"]), len(cpus["learner"]), len(workers[0]), len(workers)


@pytest.mark.parametrize(
    ("num_cpus", "expected"),
    [
        (3, (1, 1, 1, 1)),
        (4, (1, 2, 1, 1)),
        (8, (1, 2, 1, 5)),
        (16, (1, 4, 1, 11)),
        (64, (2, 4, 1, 58)),
    ],
)
def test_auto_uses_every_cpu_once(num_cpus, expected):
    assert counts(num_cpus) == expected
    cpus = divide_cpus(make_settings(), range(num_cpus))
    assert sorted(cpu for ids in cpus.values() for cpu in ids) == list(range(num_cpus))


@pytest.mark.parametrize(
    ("num_cpus", "num_workers", "expected"),
    [(4, "2", (1, 1, 1, 2)), (8, "3", (1, 2, 1, 3)), (32, "29", (1, 2, 1, 29)),
     (32, "30", (1, 1, 1, 30))],
)  # fmt: skip
def test_explicit_number_of_workers_narrows_learner_then_replay(num_cpus, num_workers, expected):
    assert counts(num_cpus, NUM_COLLECT_WORKERS=num_workers) == expected


@pytest.mark.parametrize("variables", [{}, {"NUM_COLLECT_WORKERS": "3"}])
def test_auto_with_fewer_cpus_than_programs_shares_all_and_says_so(variables):
    settings = make_settings(**variables)
    cpus = divide_cpus(settings, (4, 5))
    assert set(cpus.values()) == {(4, 5)}
    table = cpu_table(make_plan(settings, pathlib.Path("/e"), (4, 5), 1))
    assert "CPU 4-5" in table and "shared: there are fewer CPUs than programs" in table


@pytest.mark.parametrize(
    ("variables", "arithmetic"),
    [
        ({"TRAIN_CPUS": "2"}, "replay 1 + learner 2 + worker 1 = 4 CPUs, but this job has 2: 0-1"),
        (
            {"COLLECT_WORKER_CPUS": "2", "NUM_COLLECT_WORKERS": "3"},
            "replay 1 + learner 1 + 3 x worker 2 = 8 CPUs, but this job has 2",
        ),
        ({"REVERB_CPUS": "1"}, "replay 1 + learner 1 + worker 1 = 3 CPUs, but this job has 2"),
    ],
)
def test_explicit_cpus_that_do_not_fit_are_an_error_with_the_sum(variables, arithmetic):
    with pytest.raises(ConfigError) as raised:
        divide_cpus(make_settings(**variables), (0, 1))
    assert arithmetic in str(raised.value)


def test_make_plan_gives_each_program_its_command_line_and_environment():
    settings = make_settings(NUM_COLLECT_WORKERS="2")
    plan = make_plan(settings, pathlib.Path("/my logs/e"), (0, 1, 2, 3, 8), 4567)
    assert [spec.name for spec in plan] == ["replay", "learner", "worker_0", "worker_1"]
    replay, learner, _, worker = plan
    folder, address = "--exp_dir=/my logs/e", "--replay_address=localhost:4567"
    scripts = "tfagents_system/"
    assert replay.argv == (sys.executable, f"{scripts}sac_replay_buffer.py", folder, "--port=4567")
    assert learner.argv == (
        sys.executable, f"{scripts}sac_train.py", folder, address, "--num_cpus=2")  # fmt: skip
    assert worker.argv == (
        sys.executable, f"{scripts}sac_collect.py", folder, address, "--num_workers=2",
        "--num_cpus=1", "--env_timeout_secs=600")  # fmt: skip
    assert (replay.cpus, learner.cpus, worker.cpus) == ((0,), (1, 2), (8,))
    assert replay.env["TZ"] == "UTC"
    assert learner.env["OMP_NUM_THREADS"] == learner.env["OPENBLAS_NUM_THREADS"] == "2"
    assert worker.env["SLURM_PROCID"] == "1" and worker.env["CUDA_VISIBLE_DEVICES"] == "-1"
    assert "SLURM_PROCID" not in learner.env


def test_the_timeout_of_env_steps_is_handed_to_the_workers():
    settings = make_settings(ENV_TIMEOUT_SECS="45")
    *_, worker = make_plan(settings, pathlib.Path("/e"), (0, 1, 2), 1)
    assert worker.argv[-1] == "--env_timeout_secs=45"


def test_a_deterministic_run_says_so_to_every_program():
    plan = make_plan(make_settings(DETERMINISTIC="1"), pathlib.Path("/e"), range(8), 1)
    assert [spec.name for spec in plan] == ["replay", "learner", "worker_0"]
    assert {spec.argv[-1] for spec in plan} == {"--deterministic"}
    assert {spec.env["PYTHONHASHSEED"] for spec in plan} == {"0"}


def test_a_worker_has_as_many_threads_as_cpus():
    settings = make_settings(NUM_COLLECT_WORKERS="2", COLLECT_WORKER_CPUS="3")
    *_, worker_0, worker_1 = make_plan(settings, pathlib.Path("/e"), range(1 + 1 + 2 * 3), 1)
    assert (worker_0.cpus, worker_1.cpus) == ((2, 3, 4), (5, 6, 7))
    for worker in (worker_0, worker_1):
        assert "--num_cpus=3" in worker.argv
        assert worker.env["OMP_NUM_THREADS"] == worker.env["OPENBLAS_NUM_THREADS"] == "3"


def test_workers_that_share_cpus_use_one_thread_each():
    plan = make_plan(make_settings(), pathlib.Path("/e"), (0, 1), 1)
    assert {s.name: s.env["OMP_NUM_THREADS"] for s in plan} == {
        "replay": "2", "learner": "2", "worker_0": "1"}  # fmt: skip


def test_cpu_table_has_one_line_for_all_workers():
    plan = make_plan(make_settings(), pathlib.Path("/e"), range(8), 1)
    assert [line.split() for line in cpu_table(plan).splitlines()] == [
        ["replay", "CPU", "0"],
        ["learner", "CPU", "1-2"],
        ["worker_0", "to", "worker_4", "CPU", "3-7", "(1", "each)"],
    ]
