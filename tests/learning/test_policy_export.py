import errno
import gc
import json
import os
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf
from fakes import UNRIVALLED, CountingEnv
from small_disk import small_disk
from tf_agents.policies import policy_saver, py_tf_eager_policy
from tf_agents.trajectories import time_step as ts

from tfagents_system.agents.construction import make_agent
from tfagents_system.core.errors import ConfigError, SupersededError
from tfagents_system.core.state.incarnation import Claims, Fence
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.learning import policy_export
from tfagents_system.learning.policy_export import PolicyExporter, restore_policy, write_policy
from tfagents_system.policies.acting import AgentPolicies
from tfagents_system.train_params_base import TrainParamsBase


class TrainParams(TrainParamsBase):
    actor_fc_layer_params = (8,)
    critic_joint_fc_layer_params = (8,)
    rnn_units = 8

    def env_ctor(self, *args, seed=None, **kwargs):
        return CountingEnv(bounds=(-2.0, 3.0))


def agent_of(**hyperparameters):
    params = TrainParams({"horizon": 50})
    for name, value in hyperparameters.items():
        setattr(params, name, value)
    return make_agent(params, params.env_ctor())


def shift(agent, amount):
    for variable in agent.collect_policy.variables():
        variable.assign_add(np.full(variable.shape, amount, np.float32))


@pytest.fixture(scope="module", params=["mlp", "lstm"])
def exported(request, tmp_path_factory):
    """(paths, hyperparameters) of a policy at train steps 100 and 200, which differ."""
    hyperparameters = {"recurrent": request.param == "lstm"}
    paths = ExperimentPaths(tmp_path_factory.mktemp(request.param))
    agent, train_step = agent_of(**hyperparameters)
    exporter = PolicyExporter(paths, agent, train_step, UNRIVALLED)
    for number in (100, 200):
        shift(agent, 0.3)
        train_step.assign(number)
        exporter.export()
    return paths, hyperparameters


def actions_of_numpy_policy(checkpoint, hyperparameters, time_steps):
    agent, _ = agent_of(**hyperparameters)
    policies = AgentPolicies(agent, np.random.default_rng(0))
    restore_policy(checkpoint, policies.variables)
    policies.update([variable.numpy() for variable in policies.variables])
    state, actions = policies.greedy.initial_state(), []
    for time_step in time_steps:
        action, state = policies.greedy.action(time_step, state)
        actions.append(action)
    return np.stack(actions)


def actions_of_saved_model(folder, checkpoint, time_steps):
    policy = py_tf_eager_policy.SavedModelPyTFEagerPolicy(str(folder), load_specs_from_pbtxt=True)
    policy.update_from_checkpoint(str(checkpoint))
    state, actions = policy.get_initial_state(batch_size=1), []
    for time_step in time_steps:
        step = policy.action(time_step, state)
        state = step.state
        actions.append(step.action)
    return np.stack(actions)


def test_exports_leave_nothing_in_memory(tmp_path):
    exporter = PolicyExporter(ExperimentPaths(tmp_path), *agent_of(), UNRIVALLED)
    exporter.export()
    before = len(gc.get_objects())
    for _ in range(3):
        exporter.export()
    assert len(gc.get_objects()) - before < 500  # one export makes more than that


def test_a_superseded_learner_exports_nothing_and_the_next_one_clears_up(tmp_path):
    paths = ExperimentPaths(tmp_path)
    agent, train_step = agent_of()
    claims = Claims(paths.incarnations)
    exporter = PolicyExporter(paths, agent, train_step, Fence.of_core(paths, claims.claim("core")))
    exporter.export()
    before = {path: path.read_bytes() for path in paths.policies.rglob("*") if path.is_file()}
    newest = Fence.of_core(paths, claims.claim("core"))
    shift(agent, 0.3)
    train_step.assign(300)
    with pytest.raises(SupersededError):
        exporter.export()
    after = {path: path.read_bytes() for path in paths.policies.rglob("*") if path.is_file()}
    assert after == before
    for name in (".tmp-1-greedy_policy", "checkpoints/.old-1-policy_checkpoint_0000000300"):
        (paths.policies / name).mkdir()  # of a start that was killed
    PolicyExporter(paths, agent, train_step, newest).prepare()
    assert not [path for path in paths.policies.rglob(".*") if path.is_dir()]


def test_greedy_saved_model_acts_as_the_numpy_policy_at_every_checkpoint(exported):
    paths, hyperparameters = exported
    assert [path.name for path in paths.policy_checkpoints()] == [
        "policy_checkpoint_0000000100", "policy_checkpoint_0000000200",
    ]  # fmt: skip
    observations = np.float32([[0.1], [-0.7], [0.4], [2.0]])
    time_steps = [ts.restart(observations[0]), *(ts.transition(o, 0.0) for o in observations[1:])]
    per_checkpoint = []
    for checkpoint in paths.policy_checkpoints():
        expected = actions_of_numpy_policy(checkpoint, hyperparameters, time_steps)
        actual = actions_of_saved_model(paths.policies / "greedy_policy", checkpoint, time_steps)
        np.testing.assert_allclose(actual, expected, atol=1e-5)
        per_checkpoint.append(expected)
    assert np.abs(per_checkpoint[0] - per_checkpoint[1]).max() > 1e-3


def test_both_saved_models_and_their_specs_are_there_and_nothing_half_written(exported):
    paths, _ = exported
    assert sorted(path.name for path in paths.policies.iterdir()) == [
        "checkpoints", "collect_policy", "greedy_policy",
    ]  # fmt: skip
    for name in ("collect_policy", "greedy_policy"):
        assert (paths.policies / name / "policy_specs.pbtxt").is_file()
        assert (paths.policies / name / "saved_model.pb").is_file()


def test_checkpoint_of_another_network_is_refused_with_both_shapes(exported):
    paths, hyperparameters = exported
    agent, _ = agent_of(**hyperparameters, actor_fc_layer_params=(8, 4))
    with pytest.raises(ConfigError, match="is of another network") as error:
        restore_policy(paths.policy_checkpoints()[0], agent.collect_policy.variables())
    message = str(error.value)
    for network in (agent, agent_of(**hyperparameters)[0]):
        shapes = [variable.shape.as_list() for variable in network.collect_policy.variables()]
        assert json.dumps(shapes) in message
    assert "policy_checkpoint_0000000100" in message


def test_a_policy_that_normalizes_is_refused_by_a_network_that_does_not(tmp_path):
    normalizing, plain = agent_of(normalize_observations=True)[0], agent_of()[0]
    write_policy(tmp_path, normalizing.collect_policy.variables())
    with pytest.raises(ConfigError, match="is of another network"):
        restore_policy(tmp_path, plain.collect_policy.variables())


def test_a_variable_that_a_policy_lists_twice_is_restored(tmp_path):
    saved, restored = tf.Variable([1.0, 2.0]), tf.Variable([0.0, 0.0])
    write_policy(tmp_path, [saved, saved])
    restore_policy(tmp_path, [restored, restored])
    assert restored.numpy().tolist() == [1.0, 2.0]


@pytest.mark.parametrize("damaged", ["variables.index", "variables.data-00000-of-00001"])
@pytest.mark.parametrize("damage", ["missing", "cut short", "changed"])
def test_damaged_checkpoint_is_refused(exported, tmp_path, damaged, damage):
    paths, hyperparameters = exported
    checkpoint = tmp_path / "policy_checkpoint_0000000100"
    shutil.copytree(paths.policy_checkpoints()[0], checkpoint)
    file = checkpoint / "variables" / damaged
    content = file.read_bytes()
    file.unlink()
    if damage == "cut short":
        file.write_bytes(content[:20])
    elif damage == "changed":
        file.write_bytes(bytes(byte ^ 255 for byte in content))
    agent, _ = agent_of(**hyperparameters)
    with pytest.raises(ConfigError, match="policy_checkpoint_0000000100 cannot be read: "):
        restore_policy(checkpoint, agent.collect_policy.variables())


def test_saved_models_act_by_the_variables_of_the_last_export(exported):
    paths, hyperparameters = exported
    for name in ("collect_policy", "greedy_policy"):
        loaded = tf.saved_model.load(str(paths.policies / name))
        agent, _ = agent_of(**hyperparameters)
        restore_policy(paths.policy_checkpoints()[-1], agent.collect_policy.variables())
        for actual, expected in zip(
            loaded.model_variables, agent.collect_policy.variables(), strict=True
        ):
            np.testing.assert_array_equal(actual, expected)
        assert int(loaded.get_train_step()) == 200
    observation = np.float32([[0.7]])
    newest = paths.policy_checkpoints()[-1]
    expected = actions_of_numpy_policy(newest, hyperparameters, [ts.restart(observation[0])])
    time_step = ts.restart(tf.constant(observation), batch_size=1)
    greedy = tf.saved_model.load(str(paths.policies / "greedy_policy"))
    step = greedy.action(time_step, greedy.get_initial_state(batch_size=1))
    np.testing.assert_allclose(step.action, expected, atol=1e-5)


def fail_on_saved_models(folder):
    if (folder / "saved_model.pb").exists():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


def test_whole_saved_models_are_written_once_in_a_process(tmp_path, monkeypatch):
    paths, (agent, train_step) = ExperimentPaths(tmp_path), agent_of()
    num_saved = []
    save = policy_saver.PolicySaver.save
    monkeypatch.setattr(
        policy_saver.PolicySaver, "save", lambda *args: (num_saved.append(1), save(*args))
    )
    exporter = PolicyExporter(paths, agent, train_step, UNRIVALLED)
    exporter.prepare()
    assert sorted(path.name for path in paths.policies.iterdir()) == [
        "collect_policy", "greedy_policy",
    ]  # fmt: skip
    for _ in range(3):
        exporter.export()
    assert len(num_saved) == 2
    resumed = PolicyExporter(
        paths, agent, train_step, UNRIVALLED
    )  # its params file may have been edited
    with monkeypatch.context() as context:
        context.setattr(policy_export, "check_space_is_left", fail_on_saved_models)
        assert not resumed.export()
    assert len(num_saved) == 2 + 1
    for _ in range(3):
        resumed.export()
    assert len(num_saved) == 2 + 1 + 2


def test_a_saved_model_that_was_moved_away_is_written_again(tmp_path):
    paths, (agent, train_step) = ExperimentPaths(tmp_path), agent_of()
    exporter = PolicyExporter(paths, agent, train_step, UNRIVALLED)
    exporter.export()
    (paths.policies / "greedy_policy").rename(tmp_path / "deployed")
    train_step.assign(7)
    exporter.export()
    assert int(tf.saved_model.load(str(paths.policies / "greedy_policy")).get_train_step()) == 7


def test_an_export_that_fails_leaves_the_one_before_whole(tmp_path, monkeypatch):
    paths = ExperimentPaths(tmp_path)
    agent, train_step = agent_of()
    PolicyExporter(paths, agent, train_step, UNRIVALLED).export()

    def fail_at(failing, exporter):
        """Lets the write of that number in an export fail: a checkpoint, then two SavedModels."""
        written = []

        def failing_write(whole):
            def write(saver, folder):
                if len(written) == failing:
                    pathlib.Path(folder).mkdir(exist_ok=True)
                    (pathlib.Path(folder) / "saved_model.pb").touch()
                    raise OSError("no space left on device")
                written.append(folder)
                whole(saver, folder)

            return write

        with monkeypatch.context() as context:
            for method in ("save_checkpoint", "save"):
                whole = getattr(policy_saver.PolicySaver, method)
                context.setattr(policy_saver.PolicySaver, method, failing_write(whole))
            assert not exporter.export()
            assert "no space left" in exporter.problem
        assert len(written) == failing

    def train_step_of(name):
        return int(tf.saved_model.load(str(paths.policies / name)).get_train_step())

    resumed = PolicyExporter(
        paths, agent, train_step, UNRIVALLED
    )  # writes whole SavedModels at first
    for step, failing in ((1, 0), (2, 1), (3, 2)):
        shift(agent, 0.3)
        train_step.assign(step)
        fail_at(failing, resumed)
        assert train_step_of("collect_policy") == (3 if step == 3 else 0)
        assert train_step_of("greedy_policy") == 0
    resumed.export()
    for step, failing in ((4, 0), (5, 1), (6, 2)):  # and then their variables
        train_step.assign(step)
        fail_at(failing, resumed)
        assert train_step_of("collect_policy") == (6 if step == 6 else 3)
        assert train_step_of("greedy_policy") == 3
    # From train step 2 on, the checkpoint was whole before the SavedModels failed.
    assert paths.policy_checkpoints() == [paths.policy_checkpoint(n) for n in (0, 2, 3, 5, 6)]
    resumed.export()
    assert train_step_of("greedy_policy") == 6


def test_on_a_full_disk_the_old_policies_stay_and_a_later_export_replaces_them(capsys):
    with small_disk(8 << 20) as disk:
        paths = ExperimentPaths(disk.folder)
        agent, train_step = agent_of()
        exporter = PolicyExporter(paths, agent, train_step, UNRIVALLED)

        def bias_of(name):
            return tf.saved_model.load(str(paths.policies / name)).model_variables[-1].numpy()

        assert exporter.export()
        old = bias_of("greedy_policy")
        for spare_bytes in (0, 4096, 16384, 65536):
            disk.fill(spare_bytes)
            shift(agent, 0.3)
            train_step.assign_add(100)
            assert not exporter.export()
            disk.free()
            np.testing.assert_array_equal(bias_of("greedy_policy"), old)
            np.testing.assert_array_equal(bias_of("collect_policy"), old)
            assert not list(paths.policies.rglob(".*"))
        assert "DISK FULL: policy needs " in capsys.readouterr().out
        assert exporter.export()
        np.testing.assert_allclose(bias_of("greedy_policy"), old + 4 * 0.3, rtol=1e-5)
        np.testing.assert_allclose(bias_of("collect_policy"), old + 4 * 0.3, rtol=1e-5)


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EIO, os.strerror(errno.EIO)),
        OSError(errno.ESTALE, os.strerror(errno.ESTALE)),
        OSError(errno.EROFS, os.strerror(errno.EROFS)),  # what ext4 becomes after an I/O error
        tf.errors.UnknownError(None, None, "a.data: Input/output error"),
    ],
)
def test_an_export_on_a_failing_disk_is_given_up_told_and_tried_again(
    tmp_path, monkeypatch, capsys, error
):
    paths = ExperimentPaths(tmp_path)
    agent, train_step = agent_of()
    exporter = PolicyExporter(paths, agent, train_step, UNRIVALLED)
    exporter.prepare()

    def fail(*arguments):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(policy_saver.PolicySaver, "save_checkpoint", fail)
        assert [exporter.export() for _ in range(5)] == [False] * 5
    assert exporter.problem.startswith("DISK ERROR: policy cannot be written (")
    assert exporter.problem in capsys.readouterr().out
    assert not exporter.lacks_space
    assert exporter.export() and exporter.problem is None
    assert [path.name for path in paths.policy_checkpoints()] == ["policy_checkpoint_0000000000"]


def test_an_older_start_that_is_frozen_in_its_export_gives_the_later_one_its_policy_back(
    tmp_path, monkeypatch
):
    paths, claims = ExperimentPaths(tmp_path), Claims(tmp_path / "incarnations")
    (older, older_step), (later, later_step) = agent_of(), agent_of()
    frozen = PolicyExporter(paths, older, older_step, Fence.of_core(paths, claims.claim("core")))
    frozen.prepare()
    check = Fence.check
    contents = []

    def freeze(fence):
        check(fence)
        if fence.number == 1 and not contents:
            contents.append(None)  # once
            fence = Fence.of_core(paths, claims.claim("core"))
            exporter = PolicyExporter(paths, later, later_step, fence)
            shift(later, 0.5)
            later_step.assign(7)
            assert exporter.export()
            contents[0] = policy_files(paths)

    monkeypatch.setattr(Fence, "check", freeze)
    older_step.assign(7)
    with pytest.raises(SupersededError):
        frozen.export()
    assert policy_files(paths) == contents[0]


def policy_files(paths):
    files = [path for path in paths.policies.rglob("*") if path.is_file()]
    visible = [f for f in files if not any(part.startswith(".tmp") for part in f.parts)]
    return {path: path.read_bytes() for path in visible}


@pytest.mark.parametrize("algorithm", ["sac", "xqc"])
def test_an_export_logs_nothing(algorithm, tmp_path, caplog, recwarn):
    agent, train_step = agent_of(algorithm=algorithm)
    PolicyExporter(ExperimentPaths(tmp_path), agent, train_step, UNRIVALLED).export()
    assert (tmp_path / "policies/greedy_policy/saved_model.pb").exists()
    assert [record.getMessage() for record in caplog.records] == []
    assert [str(warning.message) for warning in recwarn] == []
