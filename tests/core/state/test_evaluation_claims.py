"""Claims of evaluations: one program sums each up."""

from tfagents_system.core.state.evaluation_claims import MOST_KEPT, claim_evaluation
from tfagents_system.core.state.paths import ExperimentPaths


def test_each_evaluation_is_claimed_once(tmp_path):
    paths = ExperimentPaths(tmp_path)
    assert [claim_evaluation(paths, step) for step in (200, 200, 100, 200, 100)] == [
        True, False, True, False, False,
    ]  # fmt: skip


def test_old_claims_are_removed_but_never_the_own(tmp_path):
    paths = ExperimentPaths(tmp_path)
    steps = range(1_000, 1_000 + MOST_KEPT + 3)
    assert all(claim_evaluation(paths, step) for step in steps)
    names = sorted(int(path.name) for path in paths.evaluations.iterdir())
    assert names == list(steps)[3:]
    assert claim_evaluation(paths, 1)  # of a run that begins anew from an old checkpoint
    assert not claim_evaluation(paths, 1)
