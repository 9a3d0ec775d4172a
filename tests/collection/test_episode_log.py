import csv
import time

import pytest
from small_disk import small_disk

from tfagents_system.collection.episode_log import COLUMNS, EpisodeLog
from tfagents_system.collection.rollouts import Episode


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_line_per_episode(tmp_path):
    log = EpisodeLog(tmp_path / "episodes", "collect", worker_id=2)
    before = time.time()
    log.append(Episode(-12.5, 40, None, True), iteration=3, train_step=150, env_step=40)
    log.append(Episode(1.0, 10, True, True), iteration=4, train_step=200, env_step=50)
    first, second = rows(tmp_path / "episodes" / "collect_2.csv")  # written without a close
    assert before - 0.001 <= float(first.pop("wall_time")) <= time.time() + 0.001
    assert first == {
        "worker": "2", "iteration": "3", "train_step": "150", "env_step": "40", "return": "-12.5",
        "length": "40", "success": "",
    }  # fmt: skip
    assert (second["success"], second["env_step"]) == ("1", "50")


def test_a_restart_goes_on_in_the_same_file(tmp_path):
    for last, env_step in ((0, 40), (40, 90)):
        log = EpisodeLog(tmp_path, "eval", worker_id=0)
        assert log.env_step == last
        log.append(Episode(0.0, 10, False, True), iteration=0, train_step=0, env_step=env_step)
    lines = (tmp_path / "eval_0.csv").read_text().splitlines()
    assert lines[0] == ",".join(COLUMNS)
    assert [row["env_step"] for row in rows(tmp_path / "eval_0.csv")] == ["40", "90"]


@pytest.mark.parametrize("content", ["", ",".join(COLUMNS) + "\n"])
def test_a_file_without_episodes_begins_at_env_step_0(tmp_path, content):
    (tmp_path / "collect_0.csv").write_text(content)
    assert EpisodeLog(tmp_path, "collect", 0).env_step == 0
    assert (tmp_path / "collect_0.csv").read_text().count("worker") == 1


def test_numbers_have_a_file_of_their_own_once_there_are_any(tmp_path):
    log = EpisodeLog(tmp_path, "eval", worker_id=3)
    log.append(Episode(0.0, 10, None, True), iteration=3, train_step=150, env_step=40)
    assert [path.name for path in tmp_path.iterdir()] == ["eval_3.csv"]
    for _ in range(2):
        numbers = {"distance_mean": 0.25, "reward/run_last": 2.0}
        episode = Episode(0.0, 10, None, True, numbers=numbers)
        log.append(episode, iteration=4, train_step=200, env_step=50)
        log = EpisodeLog(tmp_path, "eval", worker_id=3)
    lines = rows(tmp_path / "info_eval_3.csv")
    assert [(line["name"], line["value"]) for line in lines] == [
        ("distance_mean", "0.25"), ("reward/run_last", "2")
    ] * 2  # fmt: skip
    for number, episode in zip(lines[::2], rows(tmp_path / "eval_3.csv")[1:], strict=True):
        common = ("worker", "iteration", "train_step", "env_step", "wall_time")
        assert [number[name] for name in common] == [episode[name] for name in common]


def test_damaged_lines_do_not_keep_a_worker_from_starting(tmp_path):
    head = ",".join(COLUMNS).encode() + b"\n0,1,50,120,-1.5,10,1.0,\n"
    for damage in (b'0,"\n', b"\xff\0\n", "0,1,50,\u00b2,-1.5,10,1.0,\n".encode()):
        (tmp_path / "collect_0.csv").write_bytes(head + damage + b"0,1,50,130,-1.5,10,1.0,\n")
        assert EpisodeLog(tmp_path, "collect", 0).env_step == 130


def test_a_line_cut_short_by_a_crash_is_left_out(tmp_path):
    whole = "0,1,50,120,-1.5,10,1.0,\n"
    (tmp_path / "collect_0.csv").write_text(",".join(COLUMNS) + "\n" + whole + "0,2,10")
    log = EpisodeLog(tmp_path, "collect", 0)
    assert log.env_step == 120
    log.append(Episode(-2.5, 10, None, True), iteration=1, train_step=60, env_step=130)
    assert [row["return"] for row in rows(tmp_path / "collect_0.csv")] == ["-1.5", "-2.5"]


def test_lines_that_do_not_fit_on_the_disk_are_written_later(capsys):
    with small_disk(1 << 20) as disk:
        log = EpisodeLog(disk.folder / "episodes", "collect", worker_id=0)
        path = disk.folder / "episodes" / "collect_0.csv"
        disk.fill()
        num_episodes = 0
        while "DISK FULL: collect episodes needs " not in capsys.readouterr().out:
            num_episodes += 1
            log.append(Episode(0.0, 10, None, True), 0, 0, env_step=num_episodes)
            assert path.read_bytes().endswith(b"\n")
            assert len(rows(path)) in (num_episodes, num_episodes - 1)
        log.append(Episode(0.0, 10, None, True), 0, 0, env_step=num_episodes + 1)
        disk.free()
        log.append(Episode(0.0, 10, None, True), 0, 0, env_step=num_episodes + 2)
        assert [int(row["env_step"]) for row in rows(path)] == list(range(1, num_episodes + 3))
        assert capsys.readouterr().out.startswith("There is space again: collect episodes")


def test_a_log_begun_on_a_full_disk_has_its_header_later():
    with small_disk(1 << 20) as disk:
        disk.fill()
        log = EpisodeLog(disk.folder / "episodes", "eval", worker_id=0)
        disk.free()
        log.append(Episode(0.0, 10, None, True), 0, 0, env_step=7)
        (row,) = rows(disk.folder / "episodes" / "eval_0.csv")
        assert row["env_step"] == "7"
