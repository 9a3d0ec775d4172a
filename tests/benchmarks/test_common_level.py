from benchmarks.common_level import at_common_levels


def solve(contestant, value, evaluations, environment="Cheetah"):
    return {
        "name": "solve", "environment": environment, "contestant": contestant, "value": value,
        "level": 1000.0, "evaluations": evaluations,
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
