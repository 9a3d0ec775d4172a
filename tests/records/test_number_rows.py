import pytest

from tfagents_system.records.number_rows import COLUMNS, NumberRow, read_numbers

HEADER = ",".join(COLUMNS) + "\r\n"


@pytest.fixture
def file(tmp_path):
    return tmp_path / "info_eval_0.csv"


def test_lines_of_a_whole_file(file):
    file.write_text(HEADER + "0,2,100,40,1.0,distance_mean,0.5\r\n0,2,100,40,1.0,a/b_last,-2\r\n")
    assert list(read_numbers(file)) == [
        NumberRow(100, "distance_mean", 0.5),
        NumberRow(100, "a/b_last", -2.0),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "0,2,100,40,1.0,distance_mean",
        "0,2,100,40,1.0,distance_mean,0.5,",
        "0,2,,40,1.0,distance_mean,0.5",
        "0,2,100,40,1.0,,0.5",
        "0,2,100,40,1.0,distance_mean,",
        "0,2,100,40,1.0,distance_mean,nan",
        '0,2,100,40,1.0,"distance_mean,0.5',
    ],
)
def test_a_damaged_line_is_left_out(file, line):
    file.write_text(f"{HEADER}{line}\r\n0,2,100,40,1.0,a_mean,1\r\n")
    assert NumberRow(100, "a_mean", 1.0) in list(read_numbers(file))
    assert len(list(read_numbers(file))) <= 1 + line.startswith('0,2,100,40,1.0,"')
