"""Projects that `sac new` writes: what each kind describes is an environment and an agent."""

import numpy as np
import pytest

from tfagents_system.agents.construction import make_agent
from tfagents_system.collection.rollouts import run_episode
from tfagents_system.commands.new import EXAMPLES, OWN, new
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.programs.params_loader import load_params
from tfagents_system.core.settings.env_config import load_env_config
from tfagents_system.environments.construction import make_eval_environment
from tfagents_system.launch.checks.params_check import check_params_file
from tfagents_system.policies.acting import AgentPolicies

FILES = ["arm_config.json", "arm_params.py", "arm_variables.sh"]


@pytest.mark.parametrize("kind", [*EXAMPLES, OWN])
def test_files_of_each_kind_describe_an_environment_and_an_agent(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    new("arm", from_=kind)
    assert sorted(path.name for path in tmp_path.iterdir()) == FILES
    config = load_env_config(tmp_path / "arm_config.json")
    assert check_params_file(tmp_path / "arm_params.py", (tmp_path,)) == []
    params = load_params(tmp_path / "arm_params.py", config, [])
    environment = make_eval_environment(params, seed=1)
    agent, _ = make_agent(params, environment)
    policies = AgentPolicies(agent, np.random.default_rng(1))
    episode = run_episode(environment, policies.collect, config["horizon"])
    assert np.isfinite(episode.episode_return)
    assert episode.is_terminal == (episode.length < config["horizon"])
    environment.close()


def test_the_files_have_the_settings_of_an_algorithm(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    new("arm", from_="gymnasium", algo="xqc")
    params = load_params(tmp_path / "arm_params.py", {"horizon": 200}, [])
    per_iteration = 200 * params.n_train_episodes_per_iter
    assert (params.algorithm, params.num_steps_per_iter) == ("xqc", 2 * per_iteration)
    assert params.discount == 1 - 5 / 200
    with pytest.raises(ConfigError, match="--algo: the settings are those of ML-Agents' file"):
        new("leg", mlagents=tmp_path / "trainer.yaml", algo="xqc")


@pytest.mark.parametrize("there", FILES)
def test_no_file_is_replaced(tmp_path, monkeypatch, there):
    monkeypatch.chdir(tmp_path)
    (tmp_path / there).write_text("mine")
    with pytest.raises(ConfigError, match=f"{there} already exists"):
        new("arm")
    assert [path.name for path in tmp_path.iterdir()] == [there]
    assert (tmp_path / there).read_text() == "mine"
