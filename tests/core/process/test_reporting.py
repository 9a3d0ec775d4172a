import pytest

from tfagents_system.core.errors import SupersededError
from tfagents_system.core.process import reporting
from tfagents_system.core.process.reporting import OnlyReports


@OnlyReports("the table")
def report(error):
    raise error


def test_work_goes_on_and_each_kind_is_said_once(capsys):
    for error in (ValueError("a"), MemoryError("b"), ValueError("c")):
        assert report(error) is None
    with OnlyReports("the film"):
        raise ValueError("d")
    lines = [line for line in capsys.readouterr().out.splitlines() if "REPORT FAILED" in line]
    further = "Work continues; further ones are counted."
    assert lines == [
        f"REPORT FAILED: the table (ValueError: a). {further}",
        f"REPORT FAILED: the table (MemoryError: b). {further}",
        f"REPORT FAILED: the film (ValueError: d). {further}",
    ]
    assert reporting.num_failed() == 4


@pytest.mark.parametrize("error", [SupersededError("newer"), KeyboardInterrupt(), SystemExit(1)])
def test_what_is_to_end_the_program_does(error):
    with pytest.raises(type(error)):
        report(error)
    assert reporting.num_failed() == 0


def test_nothing_is_said_of_what_succeeds(capsys):
    @OnlyReports("the table")
    def add(first, second):
        return first + second

    assert add(1, second=2) == 3
    assert capsys.readouterr().out == ""
