import pytest

from benchmarks.ours.layouts import PackedLayout
from benchmarks.ours.train_step import Params
from tfagents_system.agents.agent_settings import normalizes_rewards
from tfagents_system.agents.table import ALGORITHMS
from tfagents_system.assembly import assemble


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_items_of_the_learner_benchmark_are_those_that_its_learner_reads(algorithm):
    params = Params({"horizon": 1000})
    params.algorithm = algorithm
    params.check("test")
    read = assemble(params, params.env_ctor()).reader
    written = PackedLayout(read.layout, stores_return=normalizes_rewards(params)).reader
    assert [(c.shape, c.dtype) for c in written.columns] == [
        (c.shape, c.dtype) for c in read.columns
    ]
