from benchmarks.ours.solve import evaluations


def rows(iteration, returns, wall_time):
    return [
        {"iteration": str(iteration), "env_step": "400", "return": str(value),
         "wall_time": str(wall_time + index)}
        for index, value in enumerate(returns)
    ]  # fmt: skip


def test_an_evaluation_is_ten_episodes_of_one_iteration_and_ends_with_its_last():
    first, unfinished = rows(5, range(10), 1000), rows(10, range(9), 2000)

    assert evaluations(first + unfinished, started=900.0) == [(1009 - 900, 400, 4.5)]


def test_a_line_that_is_being_written_is_left_out():
    half_line = {"iteration": "5", "env_step": "400", "return": "1", "wall_time": None}

    assert evaluations([*rows(5, range(9), 1000), half_line], started=0.0) == []
