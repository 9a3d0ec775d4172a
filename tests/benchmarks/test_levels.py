from benchmarks.levels import at_common_levels, with_env_steps


def solve(contestant, value, evaluations, environment="Cheetah"):
    return {
        "name": "solve", "environment": environment, "contestant": contestant, "value": value,
        "level": 1000.0, "metric": "solved_secs", "unit": "s", "evaluations": evaluations,
        "best_mean": max((mean for _, _, mean in evaluations), default=None),
    }  # fmt: skip


def seconds(records):
    return {record["contestant"]: record["value"] for record in records}


def test_runs_are_compared_at_the_highest_level_that_all_reached():
    ours = solve("ours", 300.0, [(100.0, 1, 400.0), (200.0, 2, 700.0), (300.0, 3, 1001.0)])
    sbx = solve("sbx", None, [(150.0, 1, 650.0), (250.0, 2, 600.0)])

    records, sentences = at_common_levels([ours, sbx])

    assert seconds(records) == {"ours": 200.0, "sbx": 150.0}  # the best of sbx is 650
    assert sentences == [
        "Cheetah: seconds to a mean return of 650, the highest that every run reached. "
        "Of 1,000: ours 300 s; sbx not reached."
    ]


def test_what_every_run_reached_or_one_did_not_begin_stays():
    reached = [solve("ours", 5.0, [(5.0, 1, 1000.0)]), solve("sbx", 6.0, [(6.0, 1, 1e4)])]
    without = [solve("ours", None, [], "Ant"), solve("sbx", None, [(6.0, 1, 1.0)], "Ant")]
    other = {"name": "learner", "environment": "E", "value": 3.0}

    assert at_common_levels([*reached, other, *without]) == ([*reached, other, *without], [])


def test_env_steps_to_the_level_are_those_of_the_first_evaluation_that_reaches_it():
    curve = [(100.0, 10_000, 400.0), (200.0, 20_000, 1000.0), (300.0, 30_000, 1200.0)]
    solved = solve("ours", 200.0, curve)
    unsolved = solve("sbx", None, [(150.0, 10_000, 650.0)])
    other = {"name": "learner", "environment": "E", "value": 3.0}

    records = with_env_steps([solved, other, unsolved])

    assert [r for r in records if r.get("metric") != "solved_env_steps"] == [
        solved, other, unsolved,
    ]  # fmt: skip
    steps = [r for r in records if r.get("metric") == "solved_env_steps"]
    assert [(r["contestant"], r["value"], r["unit"]) for r in steps] == [
        ("ours", 20_000, "env steps"), ("sbx", None, "env steps"),
    ]  # fmt: skip


def test_env_steps_are_those_to_the_common_level():
    ours = solve("ours", 300.0, [(100.0, 1, 400.0), (200.0, 2, 700.0), (300.0, 3, 1001.0)])
    sbx = solve("sbx", None, [(150.0, 4, 650.0)])

    records = with_env_steps(at_common_levels([ours, sbx])[0])

    steps = {r["contestant"]: r["value"] for r in records if r["metric"] == "solved_env_steps"}
    assert steps == {"ours": 2, "sbx": 4}  # 650 is the level that both reached
