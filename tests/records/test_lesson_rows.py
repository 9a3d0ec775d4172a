import pytest

from tfagents_system.collection.episode_log import LessonLog
from tfagents_system.collection.rollouts import Episode
from tfagents_system.records.lesson_rows import COLUMNS, LessonRecord, LessonRow


def episode(episode_return):
    return Episode(episode_return, 10, None, True)


def returns_of(rows):
    return [row.episode_return for row in rows]


def test_each_line_of_all_workers_is_read_once_in_order_of_time(tmp_path, monkeypatch):
    times = iter([5.0, 3.0, 4.0, 6.0])
    monkeypatch.setattr("time.time", lambda: next(times))
    logs = [LessonLog(tmp_path, worker_id) for worker_id in (0, 11)]
    record = LessonRecord(tmp_path)
    assert record.read_new() == []
    logs[0].append(episode(0.1), 7, 10, (2, 0))
    logs[1].append(episode(-2.0), 7, 10, (0, 0))
    logs[1].append(episode(3.0), 7, 20, (1, 0))
    assert record.read_new() == [
        LessonRow(3.0, (0, 0), -2.0),
        LessonRow(4.0, (1, 0), 3.0),
        LessonRow(5.0, (2, 0), 0.1),
    ]
    assert record.read_new() == []
    places = record.places.copy()
    logs[0].append(episode(4.0), 7, 20, (1,))
    assert returns_of(record.read_new()) == [4.0]
    later = LessonRecord(tmp_path)
    later.places = places
    assert returns_of(later.read_new()) == [4.0]


def test_a_line_cut_by_a_crash_is_read_when_it_is_written_again(tmp_path):
    log, record = LessonLog(tmp_path, 0), LessonRecord(tmp_path)
    log.append(episode(1.0), 7, 10, (0,))
    path = tmp_path / "lessons_0.csv"
    with path.open("a") as file:
        file.write("0,7,20,17")
    assert returns_of(record.read_new()) == [1.0]
    LessonLog(tmp_path, 0).append(episode(2.0), 7, 20, (0,))
    assert returns_of(record.read_new()) == [2.0]


@pytest.mark.parametrize(
    "line",
    ["0,7,10,1.0,5", "0,7,10,1.0,5,", "0,7,10,1.0,5,0,1", "0,7,10,now,5,0", "0,7,10,1.0,nan,0",
     "0,7,10,inf,5,0", "0,7,10,1.0,1e200,0", "0,7,10,1.0,5,-1", "0,7,10,1.0,5,0  1", '"'],
)  # fmt: skip
def test_a_damaged_line_is_left_out(tmp_path, line):
    text = "\r\n".join([",".join(COLUMNS), line, "0,7,10,1.0,9,0", ""])
    (tmp_path / "lessons_0.csv").write_text(text)
    (tmp_path / "lessons_0 (copy).csv").write_text(text)
    assert LessonRecord(tmp_path).read_new() == [LessonRow(1.0, (0,), 9.0)]
