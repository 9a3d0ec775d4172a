"""What is restored, passed over and refused."""

import numpy as np
import pytest
import tensorflow as tf
from checkpoint_fakes import ITEM, make_checkpointer, save, train
from fakes import UNRIVALLED
from replay_fakes import make_tiny_agent

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.state.generations import publish_generation


class Signals(tf.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = tf.Variable(scale, name="scale")


def test_variables_of_reward_signals_are_saved_and_restored(tmp_path, replay):
    agent, train_step = make_tiny_agent()
    root = tmp_path / "checkpoints"
    saving = make_checkpointer(root, agent, train_step, replay, signals=Signals(3.0))
    saving.save()
    assert saving.wait(10)
    signals = Signals(1.0)
    agent, train_step = make_tiny_agent()
    assert make_checkpointer(root, agent, train_step, replay, signals=signals).restore()
    assert float(signals.scale) == 3
    with pytest.raises(
        ConfigError, match="reward_signals/scale:0: .* in the checkpoint, nothing now"
    ):
        make_checkpointer(root, agent, train_step, replay).restore()


def all_values(agent, folder):
    """Every variable by its path from the agent, targets and optimizer slots included."""
    reader = tf.train.load_checkpoint(tf.train.Checkpoint(agent=agent).write(str(folder / "all")))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()
            if name != "_CHECKPOINTABLE_OBJECT_GRAPH"}  # fmt: skip


@pytest.mark.parametrize("normalizes", [False, True])
def test_a_restored_agent_is_the_saved_one_and_trains_on_to_the_same_result(
    tmp_path, replay, normalizes
):
    root = tmp_path / "checkpoints"
    agent, train_step = make_tiny_agent(normalize_observations=normalizes)
    checkpointer = make_checkpointer(root, agent, train_step, replay)
    assert not checkpointer.restore()
    train(agent, 3)
    save(checkpointer)
    saved = all_values(agent, tmp_path)

    restored, restored_step = make_tiny_agent(normalize_observations=normalizes)
    assert make_checkpointer(root, restored, restored_step, replay).restore()
    assert int(restored_step) == 3
    if normalizes:
        assert float(restored.networks.normalizer.count) == 3 * 4  # minibatches of 4
    train(agent, 2)
    train(restored, 2)
    expected, actual = all_values(agent, tmp_path), all_values(restored, tmp_path)
    assert expected.keys() == actual.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(actual[name], value, err_msg=name)
    slots = [name for name in expected if ".OPTIMIZER_SLOT" in name]
    assert len(slots) == 2 * (4 + 2 * 4 + 1)  # two of Adam for actor, twin critics and alpha
    changed = [name for name in slots if np.any(saved[name] != expected[name])]
    assert len(changed) > len(slots) / 2


def damage_by_flipping_a_bit(generation):
    (data,) = generation.glob("learner/state.data*")
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 1
    data.write_bytes(content)


DAMAGE = {
    "bit flipped": (damage_by_flipping_a_bit, "differs from its checksum"),
    "truncated": (lambda g: (g / "replay/items.tfrecord").write_text(""), "differs from its"),
    "missing": (lambda g: (g / "replay/DONE").unlink(), "DONE is missing"),
    "manifest": (lambda g: (g / "manifest.json").write_text("{"), "cannot be read"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_generation_is_passed_over_for_the_one_before(tmp_path, replay, capsys, case):
    damage, message = DAMAGE[case]
    root = tmp_path / "checkpoints"
    agent, train_step = make_tiny_agent()
    checkpointer = make_checkpointer(root, agent, train_step, replay)
    for step in (1, 2):
        train_step.assign(step)
        save(checkpointer)
    damage(root / "0000000002")
    assert checkpointer.restore()
    assert int(train_step) == 1
    assert message in capsys.readouterr().out
    damage(root / "0000000001")
    with pytest.raises(ConfigError, match=f"Every checkpoint in .* is damaged: .*{message}"):
        checkpointer.restore()


def test_learning_rates_are_those_of_now_and_not_those_of_the_checkpoint(tmp_path, replay):
    agent, train_step = make_tiny_agent()
    train(agent, 2)
    saving = make_checkpointer(tmp_path / "checkpoints", agent, train_step, replay)
    assert saving.save() and saving.wait(10)
    rates = {f"{network}_learning_rate": 1e-30 for network in ("actor", "critic", "alpha")}
    agent, train_step = make_tiny_agent(**rates)
    assert make_checkpointer(tmp_path / "checkpoints", agent, train_step, replay).restore()
    before = [v.numpy() for v in agent.collect_policy.variables()]
    train(agent, 1)
    for old, variable in zip(before, agent.collect_policy.variables(), strict=True):
        np.testing.assert_array_equal(variable, old)


def test_a_generation_of_another_agent_is_refused_with_the_differences(tmp_path, replay):
    root = tmp_path / "checkpoints"
    agent, train_step = make_tiny_agent()
    save(make_checkpointer(root, agent, train_step, replay))

    wider, train_step = make_tiny_agent(actor_fc_layer_params=(8,))
    with pytest.raises(ConfigError) as caught:
        make_checkpointer(root, wider, train_step, replay).restore()
    assert "0000000000 is of another agent (" in str(caught.value)
    assert "kernel:0: [2, 4] in the checkpoint, [2, 8] now" in str(caught.value)
    agent, train_step = make_tiny_agent()
    with pytest.raises(ConfigError, match="item length: 8 in the checkpoint, 4 now"):
        make_checkpointer(root, agent, train_step, replay, item=ITEM | {"length": 4}).restore()


def test_a_generation_of_another_algorithm_is_refused(tmp_path, replay):
    agent, train_step = make_tiny_agent()
    save(make_checkpointer(tmp_path / "checkpoints", agent, train_step, replay))
    agent.algorithm = "other"
    with pytest.raises(ConfigError, match="agent: sac in the checkpoint, other now"):
        make_checkpointer(tmp_path / "checkpoints", agent, train_step, replay).restore()


def test_another_arithmetic_is_said_and_is_no_obstacle(tmp_path, replay):
    root = tmp_path / "checkpoints"
    agent, train_step = make_tiny_agent()
    save(make_checkpointer(root, agent, train_step, replay, arithmetic="int16"))
    for now, change in (("int16", None), ("float32", "int16 in the checkpoint, float32 here")):
        checkpointer = make_checkpointer(root, agent, train_step, replay, arithmetic=now)
        assert checkpointer.restore()
        assert checkpointer.arithmetic_change == change


def test_a_generation_of_an_older_version_is_refused_with_what_to_do(tmp_path, replay):
    root = tmp_path / "checkpoints"
    agent, train_step = make_tiny_agent()
    unfinished = root / ".tmp-0"
    checkpointer = make_checkpointer(root, agent, train_step, replay)
    unfinished.mkdir()
    publish_generation(
        unfinished, root, 0, {"layout": {"replay item": "8 x float32 [7]"}}, UNRIVALLED
    )
    with pytest.raises(ConfigError, match="manifest.json has no 'requires': an older version"):
        checkpointer.restore()
