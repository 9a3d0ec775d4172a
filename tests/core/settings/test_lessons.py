import pytest

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.curriculum import Curriculum
from tfagents_system.core.settings.lessons import LessonState


def courses_of(**courses):
    section = {name: {"lessons": lessons} for name, lessons in courses.items()}
    return Curriculum.from_config(section, "config.json").courses


def by_reward(*thresholds, **more):
    until = [{"measure": "reward", "threshold": t} | more for t in thresholds]
    lessons = [{"value": index, "until": entry} for index, entry in enumerate(until)]
    return [*lessons, {"value": len(thresholds)}]


def lessons_after(state, returns, progress=0.0, name="gap"):
    found = []
    for episode_return in returns:
        state.decide(progress, episode_return)
        found.append(state.lessons[name])
    return found


def test_a_mean_above_the_threshold_ends_a_lesson_and_equal_to_it_does_not():
    lessons = by_reward(1.0, 2.0, min_lesson_length=2, signal_smoothing=False)
    state = LessonState(courses_of(gap=lessons))
    # Means of the newest two since the change: 1, (1 + 1) / 2 = 1, (1 + 1.5) / 2; then two anew.
    assert lessons_after(state, [1, 1, 1.5]) == [0, 0, 1]
    assert lessons_after(state, [9, -5, 9.5]) == [1, 1, 2]  # (9 - 5) / 2 = 2, (-5 + 9.5) / 2
    assert state.is_over
    assert lessons_after(state, [100, 100]) == [2, 2]


def test_the_smoothed_mean_begins_at_0_and_takes_three_quarters_of_each_new_mean():
    state = LessonState(courses_of(gap=by_reward(0.74, 0.9)))
    state.decide(0.0, 1.0)
    assert state.smoothed == {"gap": 0.25 * 0 + 0.75 * 1}
    assert state.lessons == {"gap": 1}
    state.decide(0.0, 1.0)  # goes on from the lesson before
    assert state.smoothed == {"gap": 0.25 * 0.75 + 0.75 * 1}
    assert state.lessons == {"gap": 2}


def test_smoothing_delays_the_end():
    # 0.75, 0.25 x 0.75 + 0.75 = 0.9375, 0.984375, 0.99609375
    returns = [1.0] * 4
    assert lessons_after(LessonState(courses_of(gap=by_reward(0.98))), returns) == [0, 0, 1, 1]


def test_a_smoothed_mean_that_is_only_better_because_it_begins_at_0_ends_nothing():
    state = LessonState(courses_of(gap=by_reward(-1200.0)))
    assert lessons_after(state, [-1500.0] * 5) == [0] * 5  # 0.75 x -1500 = -1125
    assert lessons_after(state, [-1000.0]) == [1]


def test_a_mean_of_0_ends_a_lesson():
    for is_smoothed in (True, False):
        lessons = by_reward(-0.5, signal_smoothing=is_smoothed)
        assert lessons_after(LessonState(courses_of(gap=lessons)), [0.0]) == [1]


def test_a_lesson_lasts_its_minimum_of_episodes():
    lessons = by_reward(0.0, 0.0, min_lesson_length=3, signal_smoothing=False)
    state = LessonState(courses_of(gap=lessons))
    assert lessons_after(state, [5] * 7) == [0, 0, 1, 1, 1, 2, 2]


def test_progress_ends_lessons_also_without_an_episode():
    until = [{"measure": "progress", "threshold": threshold} for threshold in (0.25, 0.5)]
    lessons = [*({"value": 0, "until": entry} for entry in until), {"value": 1}]
    state = LessonState(courses_of(gap=lessons))
    found = []
    for progress in (0.0, 0.25, 0.26, 0.5, 0.51):
        state.decide(progress)
        found.append(state.lessons["gap"])
    assert found == [0, 0, 1, 1, 2]


def test_parameters_change_independently_and_each_change_begins_the_returns_anew():
    short = by_reward(0.5, signal_smoothing=False, min_lesson_length=1)
    long = by_reward(0.5, signal_smoothing=False, min_lesson_length=3)
    state = LessonState(courses_of(gap=short, mass=long))
    found = []
    for _ in range(4):
        state.decide(0.0, 1.0)
        found.append(tuple(state.lessons.values()))
    assert found == [(1, 0), (1, 0), (1, 0), (1, 1)]  # mass counts three from the change of gap


def test_the_mean_is_over_the_largest_minimum_of_all_lessons():
    long = by_reward(1e9, signal_smoothing=False, min_lesson_length=4)
    state = LessonState(courses_of(gap=by_reward(1.0, signal_smoothing=False), mass=long))
    # (0 + 0 + 0 + 4) / 4 = 1, (0 + 0 + 4 + 1) / 4 = 1.25
    assert lessons_after(state, [0, 0, 0, 4, 1]) == [0, 0, 0, 0, 1]


def test_saved_lessons_go_on_and_those_of_a_shorter_course_are_its_last():
    courses = courses_of(gap=by_reward(1.0, 2.0), mass=by_reward(1.0))
    state = LessonState(courses, {"gap": 1, "mass": 7, "gone": 3}, {"gap": 0.5})
    assert state.lessons == {"gap": 1, "mass": 1}
    assert state.smoothed == {"gap": 0.5, "mass": 0.0}


UNTIL = {"measure": "reward", "threshold": 1}
LAST = {"value": 2}


@pytest.mark.parametrize(
    ("lessons", "expected"),
    [
        ([], "lessons is []; expected a list of objects with value and until."),
        ({"value": 1}, 'lessons is {"value": 1}; expected a list of objects with value'),
        ([1], "lessons.0 is 1; expected an object with value."),
        ([{"value": 1}, LAST], "lessons.0 lacks the key 'until'; only the last lesson has none."),
        ([{"value": 1, "until": UNTIL}], "lessons.0 has the key 'until', but the last lesson ne"),
        ([{"until": UNTIL}, LAST], "lessons.0 lacks the key 'value'."),
        ([{"value": 1, "untli": UNTIL}, LAST], "lessons.0 has the key 'untli'. Did you mean until"),
        ([{"value": "a"}], 'lessons.0.value is "a"; expected a number, or an object {"sampler"'),
        ([{"value": True}], "lessons.0.value is true; expected a number, or an object"),
        ([{"value": 1, "name": 3}], "lessons.0.name is 3; expected a string."),
        (
            [{"value": 1, "until": {"measure": "reward"}}, LAST],
            "lessons.0.until lacks the key 'threshold'.",
        ),
        (
            [{"value": 1, "until": UNTIL | {"measure": "rewrad"}}, LAST],
            'lessons.0.until.measure is "rewrad". Did you mean reward?',
        ),
        (
            [{"value": 1, "until": UNTIL | {"treshold": 2}}, LAST],
            "lessons.0.until has the key 'treshold'. Did you mean threshold?",
        ),
        (
            [{"value": 1, "until": {"measure": "progress", "threshold": 1.5}}, LAST],
            "lessons.0.until.threshold is 1.5; expected a number in [0, 1), the share of the",
        ),
        (  # progress is never above 1
            [{"value": 1, "until": {"measure": "progress", "threshold": 1}}, LAST],
            "lessons.0.until.threshold is 1; expected a number in [0, 1), the share of the",
        ),
        (
            [
                {"value": 1, "until": {"measure": "progress", "threshold": 0.5}},
                {"value": 2, "until": UNTIL},
                {"value": 3, "until": {"measure": "progress", "threshold": 0.05}},
                LAST,
            ],
            "lessons.2.until.threshold is 0.05, but the lesson begins with a progress above 0.5, "
            "so it would be skipped; expected ascending thresholds of progress, or a",
        ),
        (
            [{"value": 1, "until": UNTIL | {"min_lesson_length": -1}}, LAST],
            "lessons.0.until.min_lesson_length is -1; expected an integer from 0 to 1000000",
        ),
        (
            [{"value": 1, "until": UNTIL | {"signal_smoothing": 1}}, LAST],
            "lessons.0.until.signal_smoothing is 1; expected true or false.",
        ),
    ],
)
def test_wrong_lessons_are_named_with_file_and_key(lessons, expected):
    with pytest.raises(ConfigError) as error:
        Curriculum.from_config({"gap": {"lessons": lessons}}, "config.json")
    assert str(error.value).startswith(f"config.json: curriculum.gap.{expected}")


def test_a_lesson_whose_progress_is_reached_at_its_begin_may_have_a_least_length():
    first = {"value": 1, "until": {"measure": "progress", "threshold": 0.5}}
    until = {"measure": "progress", "threshold": 0.5, "min_lesson_length": 3}
    courses = courses_of(mass=[first, {"value": 2, "until": until}, LAST])
    state = LessonState(courses)
    assert lessons_after(state, [0.0] * 4, progress=0.6, name="mass") == [1, 1, 1, 2]
