import math
import pathlib
import sys
from collections.abc import Sequence

import pytest

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.variables import Settings
from tfagents_system.launch.local.places import Service, cpu_table, place
from tfagents_system.launch.local.plan import core, evaluators, everything, may_share_cpus, workers

EXP_DIR = pathlib.Path("/my logs/e")


def make_settings(**variables: str) -> Settings:
    required = {"SAC_EXP_NAME": "e", "SAC_PARAMS": "p.py", "SAC_CONFIG": "c.json"}
    return Settings.from_environ(required | {f"SAC_{k}": v for k, v in variables.items()})


def services(available: Sequence[int], **variables: str) -> dict[str, Service]:
    """Returns the programs of a run on one host with these CPUs."""
    settings = make_settings(**variables)
    programs = everything(settings, EXP_DIR, len(available))
    placed = place(programs, available, may_share_cpus(settings), "localhost:4567")
    return {service.name: service for service in placed}


def counts(num_cpus: int, **variables: str) -> tuple[int, int, int, int]:
    """Returns CPUs of replay, learner and each worker, and the number of workers."""
    placed = services(range(num_cpus), **variables)
    workers = [service.cpus for name, service in placed.items() if name.startswith("worker_")]
    assert len({len(ids) for ids in workers}) == 1
    return len(placed["replay"].cpus), len(placed["learner"].cpus), len(workers[0]), len(workers)


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
    placed = services(range(num_cpus)).values()
    assert sorted(cpu for service in placed for cpu in service.cpus) == list(range(num_cpus))


@pytest.mark.parametrize(
    ("num_cpus", "num_workers", "expected"),
    [(4, "2", (1, 1, 1, 2)), (8, "3", (1, 2, 1, 3)), (32, "29", (1, 2, 1, 29)),
     (32, "30", (1, 1, 1, 30))],
)  # fmt: skip
def test_explicit_number_of_workers_narrows_learner_then_replay(num_cpus, num_workers, expected):
    assert counts(num_cpus, NUM_COLLECT_WORKERS=num_workers) == expected


@pytest.mark.parametrize("variables", [{}, {"NUM_COLLECT_WORKERS": "3"}])
def test_auto_with_fewer_cpus_than_programs_shares_all_and_says_so(variables):
    placed = list(services((4, 5), **variables).values())
    assert {service.cpus for service in placed} == {(4, 5)}
    table = cpu_table(placed)
    assert "CPU 4-5" in table and "shared: there are fewer CPUs than programs" in table


@pytest.mark.parametrize("num_cpus", [2, 8])
def test_where_others_may_use_the_same_cpus_programs_run_on_all_of_them(num_cpus):
    programs = core(make_settings(TRAIN_CPUS="3", REVERB_CPUS="1"), EXP_DIR, num_cpus)
    placed = place(programs, range(num_cpus), False, "localhost:4567", are_all_ours=False)
    assert {service.cpus for service in placed} == {tuple(range(num_cpus))}
    assert "(shared: which are theirs is unknown)" in cpu_table(placed)
    assert "--num_cpus=3" in placed[1].argv  # threads, as asked for


def test_a_container_s_quota_is_divided_and_its_cpus_are_shared():
    programs = everything(make_settings(), EXP_DIR, 4)  # of 64: its quota
    placed = place(programs, range(64), True, "localhost:4567", num_cpus=4)
    assert [service.name for service in placed] == ["replay", "learner", "worker_0"]
    assert {service.cpus for service in placed} == {tuple(range(64))}
    asked = make_settings(NUM_COLLECT_WORKERS="4", COLLECT_WORKER_CPUS="1")
    programs = everything(asked, EXP_DIR, 4)
    with pytest.raises(
        ConfigError, match=r"= 6 CPUs, but this job has the time of 4 \(its contain"
    ):
        place(programs, range(64), may_share_cpus(asked), "localhost:4567", num_cpus=4)


@pytest.mark.parametrize(
    ("memory_bytes", "num_workers"),
    [(math.inf, 59), (2.0e9, (2.0 - 1.0) / 0.2), (1.2e9, 1), (0.5e9, 1)],
)
def test_auto_has_no_more_workers_than_memory(memory_bytes, num_workers):
    programs = everything(make_settings(), EXP_DIR, 64, memory_bytes)
    workers = [program for program in programs if program.name.startswith("worker_")]
    assert len(workers) == pytest.approx(num_workers, abs=1)
    asked = everything(make_settings(NUM_COLLECT_WORKERS="9"), EXP_DIR, 64, memory_bytes)
    assert sum(program.name.startswith("worker_") for program in asked) == 9


def test_a_share_that_needs_every_cpu_of_its_host_has_them_apart():
    programs = core(make_settings(TRAIN_CPUS="3", REVERB_CPUS="1"), EXP_DIR, 4)
    placed = place(programs, range(4), False, "localhost:4567", are_all_ours=False)
    assert [service.cpus for service in placed] == [(0,), (1, 2, 3)]


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
        services((0, 1), **variables)
    assert arithmetic in str(raised.value)


def test_each_program_has_its_command_line_environment_and_cpus():
    placed = services((0, 1, 2, 3, 8), NUM_COLLECT_WORKERS="2")
    assert list(placed) == ["replay", "learner", "worker_0", "worker_1"]
    replay, learner, _, worker = placed.values()
    folder, address = "--exp_dir=/my logs/e", "--replay_address=localhost:4567"
    start = (sys.executable, "-m")
    assert replay.argv == (*start, "tfagents_system.sac_replay_buffer", folder, "--port=4567")
    assert learner.argv == (
        *start, "tfagents_system.sac_train", folder, address, "--num_cpus=2")  # fmt: skip
    assert worker.argv[:5] == (*start, "tfagents_system.sac_collect", folder, address)
    assert {"--num_cpus=1", "--env_timeout_secs=600"} <= set(worker.argv[4:])
    assert (replay.cpus, learner.cpus, worker.cpus) == ((0,), (1, 2), (8,))
    assert replay.env["TZ"] == "UTC"
    assert learner.env["OMP_NUM_THREADS"] == learner.env["OPENBLAS_NUM_THREADS"] == "2"
    assert worker.env["SLURM_PROCID"] == "1" and worker.env["CUDA_VISIBLE_DEVICES"] == "-1"
    assert "SLURM_PROCID" not in learner.env


def test_the_timeout_of_env_steps_is_handed_to_the_workers():
    assert "--env_timeout_secs=45" in services((0, 1, 2), ENV_TIMEOUT_SECS="45")["worker_0"].argv


def test_a_deterministic_run_says_so_to_every_program():
    placed = services(range(8), DETERMINISTIC="1")
    assert list(placed) == ["replay", "learner", "worker_0"]
    assert {service.argv[-1] for service in placed.values()} == {"--deterministic"}
    assert {service.env["PYTHONHASHSEED"] for service in placed.values()} == {"0"}


def test_a_worker_has_as_many_threads_as_cpus():
    placed = services(range(1 + 1 + 2 * 3), NUM_COLLECT_WORKERS="2", COLLECT_WORKER_CPUS="3")
    *_, worker_0, worker_1 = placed.values()
    assert (worker_0.cpus, worker_1.cpus) == ((2, 3, 4), (5, 6, 7))
    for worker in (worker_0, worker_1):
        assert "--num_cpus=3" in worker.argv
        assert worker.env["OMP_NUM_THREADS"] == worker.env["OPENBLAS_NUM_THREADS"] == "3"


def test_workers_that_share_cpus_use_one_thread_each():
    placed = services((0, 1))
    assert {name: service.env["OMP_NUM_THREADS"] for name, service in placed.items()} == {
        "replay": "2", "learner": "2", "worker_0": "1"}  # fmt: skip


def test_cpu_table_has_one_line_for_all_workers_and_one_for_all_evaluators():
    table = cpu_table(list(services(range(10), EVAL_WORKERS="2").values()))
    assert [line.split() for line in table.splitlines()] == [
        ["replay", "CPU", "0"],
        ["learner", "CPU", "1-2"],
        ["worker_0", "to", "worker_4", "CPU", "3-7", "(1", "each)"],
        ["evaluator_0", "to", "evaluator_1", "CPU", "8-9", "(1", "each)"],
    ]


def test_evaluators_are_the_collect_program_with_a_flag_and_numbers_of_their_own():
    placed = services(range(6), NUM_COLLECT_WORKERS="1", EVAL_WORKERS="1")
    worker, evaluator = placed["worker_0"], placed["evaluator_0"]
    assert worker.env["SLURM_PROCID"] == evaluator.env["SLURM_PROCID"] == "0"
    assert "--nocollects" in evaluator.argv and "--noevaluates" not in evaluator.argv
    assert "--noevaluates" in worker.argv and "--nocollects" not in worker.argv
    assert "--noevaluates" not in services(range(10))["worker_0"].argv


def test_the_core_leaves_the_workers_to_other_shares():
    settings = make_settings(NUM_COLLECT_WORKERS="64", EVAL_WORKERS="1")
    programs = core(settings, EXP_DIR, 8)
    assert [(p.name, p.num_cpus) for p in programs] == [("replay", 1), ("learner", 2)]


@pytest.mark.parametrize("collectors", [workers, evaluators])
def test_a_share_has_the_workers_that_it_was_told(collectors):
    settings = make_settings(COLLECT_WORKER_CPUS="2", NUM_COLLECT_WORKERS="64")
    programs = collectors(settings, EXP_DIR, range(6, 9))
    kind = collectors.__name__.removesuffix("s")
    assert [(p.name, p.num_cpus) for p in programs] == [(f"{kind}_{k}", 2) for k in (6, 7, 8)]
    assert [p.env["SLURM_PROCID"] for p in programs] == ["6", "7", "8"]
    with pytest.raises(ConfigError, match=f"3 x {kind} 2 = 6 CPUs, but this job has 5: 0-4"):
        place(programs, range(5), may_share_cpus(settings), "unix:/tmp/x")


def test_the_programs_are_told_to_write_the_tags_of_mlagents():
    def told(**variables):
        programs = everything(make_settings(**variables), EXP_DIR, 4)
        return {program.env.get("SAC_MLAGENTS_TAGS") for program in programs}

    assert (told(MLAGENTS_TAGS="1"), told()) == ({"1"}, {None})
