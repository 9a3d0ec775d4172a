import json
from typing import NamedTuple

import pytest

from tfagents_system.core.settings.curriculum import Curriculum
from tfagents_system.learning.lesson_office import LessonOffice

NUM_TRAIN_STEPS = 1000


class Row(NamedTuple):
    lessons: tuple[int, ...]
    episode_return: float


class FakeRecord:
    """Has all rows of a run; the place is the number of those that were read."""

    def __init__(self, rows):
        self.rows = rows
        self.places = {}

    def read_new(self):
        begin = self.places.get("rows", 0)
        self.places = {"rows": len(self.rows)}
        return self.rows[begin:]


def until(threshold, **more):
    entry = {"measure": "reward", "threshold": threshold, "signal_smoothing": False}
    return {"until": entry | more}


GAP = [
    {"value": 0, **until(1.0, min_lesson_length=2)},
    {"value": 1, "name": "wide", **until(2.0)},
    {"value": 2},
]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "checkpoints" / "lessons.json"


def office_of(path, record, train_step=0, **courses):
    section = {name: {"lessons": lessons} for name, lessons in (courses or {"gap": GAP}).items()}
    courses = Curriculum.from_config(section, "test").courses
    return LessonOffice(courses, path, record, train_step, NUM_TRAIN_STEPS)


def test_episodes_of_an_earlier_lesson_do_not_count(path, capsys):
    record = FakeRecord([Row((0,), 5.0), Row((0,), 5.0), Row((0,), 90.0), Row((0,), 90.0)])
    office = office_of(path, record)
    assert (office.lessons, office.shown) == ((0,), "gap 1 of 3")
    office.decide(1)
    assert (office.lessons, office.numbers) == ((1,), {"gap": 2})
    record.rows.append(Row((0,), 90.0))  # began before, and ended after
    office.decide(2)
    assert office.lessons == (1,)
    record.rows += [Row((1,), 2.0), Row((1,), 3.0)]  # 2 is not above 2, (2 + 3) / 2 is
    office.decide(3)
    assert (office.lessons, office.shown) == ((2,), "gap 3 of 3")
    assert capsys.readouterr().out.splitlines() == [
        "Lesson of gap 2 of 3 (wide) begins at train step 1.",
        "Lesson of gap 3 of 3 begins at train step 3.",
    ]


def test_there_is_one_decision_for_each_train_step(path):
    record = FakeRecord([Row((0,), 5.0)] * 2)
    office = office_of(path, record, train_step=40)
    office.decide(40)  # a restarted learner waits for its next step
    assert office.lessons == (0,)
    office.decide(41)
    record.rows.append(Row((1,), 9.0))
    office.decide(41)
    assert office.lessons == (1,)
    office.decide(42)
    assert office.lessons == (2,)


@pytest.mark.parametrize("killed_after", range(6))
def test_a_killed_learner_decides_as_one_that_runs_on(path, killed_after):
    rows = [Row((0,), 1.0), Row((0,), 1.1), Row((0,), 7.0), Row((1,), 1.5), Row((1,), 2.6),
            Row((2,), 0.0)]  # fmt: skip
    record, found = FakeRecord([]), []
    office = office_of(path, record)
    for train_step, row in enumerate(rows, 1):
        record.rows.append(row)
        office.decide(train_step)
        found.append(office.lessons)
        if train_step == killed_after:
            record = FakeRecord(record.rows)
            office = office_of(path, record, train_step)
    assert found == [(0,), (1,), (1,), (1,), (2,), (2,)]


def test_progress_may_end_several_lessons_at_once(path):
    ends = [{"measure": "progress", "threshold": threshold} for threshold in (0.1, 0.2, 0.9)]
    lessons = [*({"value": 0, "until": end} for end in ends), {"value": 1}]
    office = office_of(path, FakeRecord([]), gap=lessons)
    found = []
    for train_step in (100, 101, 900, 1000):
        office.decide(train_step)
        found.append(office.lessons)
    assert found == [(0,), (1,), (2,), (3,)]
    office = office_of(path.with_name("other.json"), FakeRecord([]), gap=lessons)
    office.decide(250)
    assert office.lessons == (2,)


def test_without_lessons_nothing_is_read_or_written(path):
    office = LessonOffice({}, path, FakeRecord([Row((), 1.0)]), 0, NUM_TRAIN_STEPS)
    office.decide(5)
    assert (office.lessons, office.shown, office.numbers) == ((), None, {})
    assert not path.parent.exists()


@pytest.mark.parametrize("damage", ["", "[]", "{", '{"lessons": {"gap": -1}}', '{"lessons": 3}'])
def test_a_damaged_file_begins_with_the_first_lessons(path, damage):
    path.parent.mkdir()
    path.write_text(damage)
    assert office_of(path, FakeRecord([])).lessons == (0,)


def test_the_file_keeps_lessons_by_name(path):
    office = office_of(path, FakeRecord([Row((0,), 5.0)] * 2))
    office.decide(1)
    assert json.loads(path.read_text()) == {
        "lessons": {"gap": 1}, "smoothed": {"gap": 0.0}, "read": {"rows": 2}}  # fmt: skip
    edited = office_of(path, FakeRecord([]), mass=GAP, gap=GAP)
    assert edited.lessons == (0, 1)
