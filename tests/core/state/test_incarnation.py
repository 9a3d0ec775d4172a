import concurrent.futures
import json
import os
import platform

import pytest
from small_disk import small_disk

from tfagents_system.core.errors import SupersededError
from tfagents_system.core.state.incarnation import CORE, Claims, Fence, Job
from tfagents_system.core.state.paths import ExperimentPaths


def test_numbers_ascend_and_say_who_claimed_them(tmp_path):
    claims = Claims(tmp_path / "incarnations")
    assert claims.claim(CORE) == 1
    assert claims.claim(CORE, Job("17_3", 2)) == 2
    owner = claims.owner(2)
    assert (owner["program"], owner["host"], owner["pid"]) == (CORE, platform.node(), os.getpid())
    assert owner["job"] == {"id": "17_3", "restart_count": 2}
    assert claims.owner(1)["job"] is None
    assert sorted(os.listdir(tmp_path / "incarnations")) == ["000001", "000002"]


def test_nobody_gets_a_number_twice(tmp_path):
    folder = tmp_path / "streams"
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        numbers = list(pool.map(lambda k: Claims(folder).claim(f"worker_{k}"), range(40)))
    assert sorted(numbers) == list(range(1, 41))
    for number, k in zip(numbers, range(40), strict=True):
        assert Claims(folder).owner(number)["program"] == f"worker_{k}"


def test_a_number_linked_by_a_call_whose_answer_was_lost_is_had(tmp_path, monkeypatch):
    link = os.link

    def link_without_answer(source, target, **options):
        link(source, target, **options)
        raise FileExistsError  # NFS repeats a request whose answer it has not received

    monkeypatch.setattr(os, "link", link_without_answer)
    assert Claims(tmp_path / "incarnations").claim(CORE) == 1
    assert Claims(tmp_path / "incarnations").claim(CORE) == 2


def test_a_full_disk_keeps_nobody_from_claiming(tmp_path):
    with small_disk(1 << 20) as disk:
        claims = Claims(disk.folder / "streams")
        assert claims.claim("worker_0") == 1
        disk.fill()
        assert [claims.claim(f"worker_{k}") for k in (0, 1)] == [1 + 1, 1 + 2]
        assert claims.newest("worker_0") == 1 + 1 and claims.newest("worker_1") == 1 + 2
        assert Claims(disk.folder / "streams").owner(1 + 2) == {"program": "worker_1"}
        with pytest.raises(SupersededError, match=r"\? has started worker_0 anew"):
            Fence(claims, "worker_0", 1).check()


def test_only_the_newest_start_passes(tmp_path):
    paths = ExperimentPaths(tmp_path)
    first = Fence.of_core(paths, Claims(paths.incarnations).claim(CORE))
    first.check()
    second = Fence.of_core(paths, Claims(paths.incarnations).claim(CORE))
    second.check()
    assert second.is_newest and not first.is_newest
    with pytest.raises(SupersededError, match=f"superseded: {platform.node()} .* core .*number 2"):
        first.check()


def test_a_worker_is_superseded_by_its_own_number_alone(tmp_path):
    paths = ExperimentPaths(tmp_path)
    fences = [Fence.of_worker(paths, f"worker_{k}") for k in (1, 11, 0)]
    assert [fence.is_newest for fence in fences] == [True] * 3
    assert Fence.of_worker(paths, "worker_11").number == 4
    assert [fence.is_newest for fence in fences] == [True, False, True]


def test_a_start_is_the_first_one_of_its_program_alone(tmp_path):
    paths = ExperimentPaths(tmp_path)
    fences = [Fence.of_worker(paths, f"worker_{k}") for k in (1, 11, 0, 1, 11)]
    assert [fence.is_first for fence in fences] == [True] * 3 + [False] * 2
    (paths.streams / "000003").write_text("{")  # damaged: it may have been anybody's
    assert not Fence.of_worker(paths, "worker_0").is_first
    assert not Fence.of_worker(paths, "worker_2").is_first


def test_what_was_never_claimed_is_the_newest_until_somebody_claims(tmp_path):
    paths = ExperimentPaths(tmp_path)
    fence = Fence.of_core(paths, 0)
    fence.check()
    Claims(paths.incarnations).claim(CORE)
    with pytest.raises(SupersededError):
        fence.check()


def test_other_files_in_the_folder_are_left_alone(tmp_path):
    folder = tmp_path / "streams"
    claims = Claims(folder)
    claims.claim("worker_0")
    (folder / "notes.txt").write_text("mine")
    (folder / "000007").write_text("{")  # damaged
    (folder / "000008").write_text(json.dumps([]))
    assert claims.newest("worker_0") == 1
    assert claims.claim("worker_0") == 9
    assert claims.newest("worker_0") == 9


@pytest.mark.parametrize(
    ("environ", "job"),
    [
        ({}, None),
        ({"SLURM_JOB_ID": "12"}, Job("12", 0)),
        ({"SLURM_JOB_ID": "12", "SLURM_RESTART_COUNT": "3"}, Job("12", 3)),
    ],
)
def test_the_job_comes_from_the_variables_of_slurm(environ, job):
    assert Job.from_environ(environ) == job


@pytest.mark.parametrize(
    ("job", "holder", "replaces"),
    [
        (Job("12", 1), Job("12", 0), True),
        (Job("12", 1), Job("12", 1), False),
        (Job("12", 0), Job("12", 1), False),
        (Job("13", 1), Job("12", 0), False),
        (Job("12", 1), None, False),
    ],
)
def test_a_job_replaces_only_an_earlier_start_of_itself(job, holder, replaces):
    assert job.replaces(holder) == replaces
