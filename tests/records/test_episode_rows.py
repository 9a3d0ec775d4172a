import math

import hypothesis
import pytest
from hypothesis import strategies as st

from tfagents_system.records.episode_rows import COLUMNS, EpisodeRow, read_rows

HEADER = ",".join(COLUMNS) + "\r\n"


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("episodes") / "collect_0.csv"


def test_rows_of_a_whole_file(file):
    file.write_text(HEADER + "0,2,100,40,-1.5,20,1.0,\r\n0,3,150,60,-inf,20,2.0,1\r\n")
    assert list(read_rows(file)) == [
        EpisodeRow(100, 40, -1.5, 1.0),
        EpisodeRow(150, 60, -math.inf, 2.0, True),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "0,2,100,40,-1.5,20,1.0",  # cut short before the last comma
        "0,2,100,40,-1.5,20,1.0,,",
        "0,2,,40,-1.5,20,1.0,",
        "0,2,1e2,40,-1.5,20,1.0,",
        "0,2,-100,40,-1.5,20,1.0,",
        "0,2,100,\u00b2,-1.5,20,1.0,",  # superscript 2: a digit, but no number
        f"0,2,100,{'9' * 5000},-1.5,20,1.0,",
        "0,2,100,40,-,20,1.0,",
        "0,2,100,40,,20,1.0,",
        "0,2,100,40,-1.5,20,,",
        "0,2,100,40,-1.5,20,nan,",
    ],
)
def test_line_that_says_nothing_is_left_out(file, line):
    file.write_text(HEADER + f"{line}\r\n" + "0,3,150,60,2,20,2.0,1\r\n")
    assert list(read_rows(file)) == [EpisodeRow(150, 60, 2.0, 2.0, True)]


WALL = 1.0
GARBAGE = st.binary().filter(lambda content: b"," not in content) | st.sampled_from(
    [b'"', b'0,2,"100,40', b"x" * 200_000, b"\0\0", b"\r", b"\xff\xfe"]
)


@pytest.mark.fault_row("malformed input")
@hypothesis.given(st.lists(GARBAGE, max_size=4))
@hypothesis.settings(max_examples=200)
def test_garbage_between_lines_costs_none_of_them(file, garbage):
    content, expected = HEADER.encode(), []
    for number, part in enumerate(garbage):
        content += part + b"\r\n" + f"0,1,{number},{2 * number},-{number}.5,20,1.0,\r\n".encode()
        expected.append(EpisodeRow(number, 2 * number, -number - 0.5, WALL))
    file.write_bytes(content)
    assert list(read_rows(file)) == expected


@pytest.mark.fault_row("malformed input")
@hypothesis.given(st.binary())
@hypothesis.settings(max_examples=200)
def test_any_bytes_are_a_file_of_episodes(file, content):
    file.write_bytes(content)
    assert all(row.train_step >= 0 for row in read_rows(file))
