"""Sections of every layout of ML-Agents, and the hyperparameters that they become."""

import math

import pytest
import yaml

from tfagents_system.commands.mlagents.document import read_document
from tfagents_system.commands.mlagents.settings import convert
from tfagents_system.core.errors import ConfigError

HORIZON = 1000


def converted_of(tmp_path, text, behavior=None):
    path = tmp_path / "trainer.yaml"
    path.write_text(text if isinstance(text, str) else yaml.safe_dump(text))
    return convert(read_document(path).section(behavior), HORIZON)


def values_of(converted):
    return {name: setting.value for name, setting in converted.settings.items()}


def layers(units, num_layers=2):
    return dict.fromkeys(
        ("actor_fc_layer_params", "critic_joint_fc_layer_params"), (units,) * num_layers
    )


def rates(rate):
    return dict.fromkeys(
        ("actor_learning_rate", "critic_learning_rate", "alpha_learning_rate"), rate
    )


# The configuration for SAC of the first release that had it, by behavior.
DEFAULT = {
    "trainer": "sac", "batch_size": 128, "buffer_size": 50000, "buffer_init_steps": 0,
    "hidden_units": 128, "init_entcoef": 1.0, "learning_rate": 3.0e-4,
    "learning_rate_schedule": "linear", "max_steps": "5.0e4", "memory_size": 256,
    "normalize": False, "num_update": 1, "train_interval": 1, "num_layers": 2, "time_horizon": 64,
    "sequence_length": 64, "summary_freq": 1000, "tau": 0.005, "use_recurrent": False,
    "vis_encode_type": "default",
    "reward_signals": {"extrinsic": {"strength": 1.0, "gamma": 0.99}},
}  # fmt: skip
OF_DEFAULT = {
    "num_iter": 50, "n_train_episodes_per_iter": 1, "num_steps_per_iter": 1000,
    "n_episodes_in_buffer": 50, "n_buffer_init_episodes": 1, "seed_sac_buffer": False,
    "log_period_itrs": 1, "checkpoint_period_itrs": 50, "eval_period_itrs": 3,
    "train_batch_size": 128, "learning_rate_schedule": "linear", "target_update_tau": 0.005,
    "sac_log_alpha": 0.0, "normalize_observations": False, "image_encoder": "simple",
    "discount": 0.99,
} | layers(128) | rates(3e-4)  # fmt: skip
PPO = {"beta": "5.0e-3", "num_epoch": 3}


def steps(max_steps):
    num_iter = max_steps // HORIZON
    return {"num_iter": num_iter, "eval_period_itrs": -(-num_iter // 20)}


def alpha(coefficient):
    return {"sac_log_alpha": round(math.log(coefficient), 6)}


def extrinsic(strength, gamma, **others):
    return {"extrinsic": {"strength": strength, "gamma": gamma}, **others}


GAIL = {"strength": 0.02, "gamma": 0.99, "encoding_size": 128, "use_actions": True,
        "demo_path": "demos/ExpertPyramid.demo"}  # fmt: skip
PYRAMIDS = (
    {"time_horizon": 128, "batch_size": 128, "buffer_init_steps": 10000, "buffer_size": 500000,
     "hidden_units": 256, "init_entcoef": 0.01, "max_steps": "5.0e5", "tau": 0.01,
     "reward_signals": extrinsic(2.0, 0.99, gail=GAIL)},
    steps(500_000) | layers(256) | alpha(0.01)
    | {"n_episodes_in_buffer": 500, "n_buffer_init_episodes": 10, "target_update_tau": 0.01,
       "reward_signals": {
           "extrinsic": {"strength": 2.0, "discount": 0.99},
           "gail": {"strength": 0.02, "discount": 0.99, "encoding_size": 128, "use_actions": True},
       },
       "demonstrations": ("demos/ExpertPyramid.demo",), "demonstration_share": 0.0},
)  # fmt: skip
CRAWLER = (
    {"normalize": True, "time_horizon": 1000, "batch_size": 256, "train_interval": 3,
     "buffer_size": 500000, "max_steps": "5e5", "num_layers": 3, "hidden_units": 512},
    steps(500_000) | layers(512, 3)
    | {"normalize_observations": True, "train_batch_size": 256, "num_steps_per_iter": 333,
       "n_episodes_in_buffer": 500},
)  # fmt: skip
HALLWAY = (
    {"use_recurrent": True, "sequence_length": 32, "memory_size": 256, "init_entcoef": 0.1,
     "max_steps": "5.0e5", **PPO},
    steps(500_000) | alpha(0.1)
    # 128 steps are 4 sequences of 32; the memory has cell and state of 4 networks.
    | {"recurrent": True, "recurrent_sequence_length": 32, "rnn_units": 256 // 8,
       "train_batch_size": 128 // 32},
)  # fmt: skip
JUMP = (
    {"max_steps": "1.0e6", "hidden_units": 256, "time_horizon": 128, "init_entcoef": 0.1, **PPO},
    steps(1_000_000) | layers(256) | alpha(0.1),
)
PLAYER = (
    {"max_steps": "5.0e5", "learning_rate": "1e-3", "hidden_units": 256, "time_horizon": 128,
     "init_entcoef": 0.1, **PPO},
    steps(500_000) | layers(256) | alpha(0.1) | rates(1e-3),
)  # fmt: skip
BANANA = (
    {"batch_size": 256, "buffer_size": 500000, "max_steps": "1.0e5", "init_entcoef": 0.05, **PPO},
    steps(100_000) | alpha(0.05) | {"train_batch_size": 256, "n_episodes_in_buffer": 500},
)
PUSH = ({"init_entcoef": 0.05, "hidden_units": 256}, layers(256) | alpha(0.05))
BALL = (
    {"normalize": True, "batch_size": 64, "buffer_size": 12000, "time_horizon": 1000,
     "hidden_units": 64, "init_entcoef": 0.5, "max_steps": "5.0e5"},
    steps(500_000) | layers(64) | alpha(0.5)
    | {"normalize_observations": True, "train_batch_size": 64, "n_episodes_in_buffer": 12},
)  # fmt: skip
SECTIONS = {
    "default": ({}, {}),
    "BananaLearning": BANANA,
    "VisualBananaLearning": BANANA,
    "BouncerLearning": (
        {"normalize": True, "hidden_units": 64, "max_steps": "5.0e5", "beta": "5.0e-3"},
        steps(500_000) | layers(64) | {"normalize_observations": True},
    ),
    "PushBlockLearning": PUSH,
    "VisualPushBlockLearning": (
        PUSH[0] | {"buffer_size": 1024},
        PUSH[1] | {"n_episodes_in_buffer": 2},  # 1,024 env steps take two episodes of 1,000
    ),
    "SmallWallJumpLearning": JUMP,
    "BigWallJumpLearning": JUMP,
    "StrikerLearning": PLAYER,
    "GoalieLearning": PLAYER,
    "PyramidsLearning": PYRAMIDS,
    "VisualPyramidsLearning": PYRAMIDS,
    "3DBallLearning": BALL,
    "3DBallHardLearning": (
        {"normalize": True, "batch_size": 256, "time_horizon": 1000, "max_steps": "5.0e5"},
        steps(500_000) | {"normalize_observations": True, "train_batch_size": 256},
    ),
    "TennisLearning": (
        {"normalize": True, "max_steps": "2e5"},
        steps(200_000) | {"normalize_observations": True},
    ),
    "CrawlerStaticLearning": (
        CRAWLER[0] | {"buffer_init_steps": 2000},
        CRAWLER[1] | {"n_buffer_init_episodes": 2},
    ),
    "CrawlerDynamicLearning": CRAWLER,
    "WalkerLearning": (
        CRAWLER[0] | {"max_steps": "2e6", "reward_signals": extrinsic(1.0, 0.995)},
        CRAWLER[1] | steps(2_000_000) | {"discount": 0.995},
    ),
    "ReacherLearning": (
        {"normalize": True, "time_horizon": 1000, "batch_size": 128, "buffer_size": 500000,
         "max_steps": "1e6"},
        steps(1_000_000) | {"normalize_observations": True, "n_episodes_in_buffer": 500},
    ),
    "HallwayLearning": HALLWAY,
    "VisualHallwayLearning": HALLWAY,
    "GridWorldLearning": (
        {"batch_size": 128, "num_layers": 1, "init_entcoef": 0.01, "time_horizon": 5,
         "reward_signals": extrinsic(1.0, 0.9)},
        layers(128, 1) | alpha(0.01) | {"discount": 0.9},
    ),
    "BasicLearning": (
        {"batch_size": 64, "num_layers": 2, "hidden_units": 20, "init_entcoef": 0.01,
         "time_horizon": 10},
        layers(20) | alpha(0.01) | {"train_batch_size": 64},
    ),
}  # fmt: skip


def test_there_are_as_many_sections_as_in_the_release():
    assert len(SECTIONS) == 23


@pytest.mark.parametrize("behavior", SECTIONS)
def test_a_section_of_the_first_release_with_sac(tmp_path, behavior):
    sections = {name: section for name, (section, _) in SECTIONS.items() if name != "default"}
    section, expected = SECTIONS[behavior]
    if behavior == "default":
        sections = {}
    converted = converted_of(tmp_path, {"default": DEFAULT} | sections, behavior)
    assert values_of(converted) == OF_DEFAULT | expected
    noted = {note.partition(" ")[0].rstrip(":") for note in converted.notes}
    assert noted == {"time_horizon"} | {key for key in section if key in PPO}


NEWEST = """
default_settings:
  trainer_type: sac
  hyperparameters: {batch_size: 64, learning_rate: 1.0e-3}
  network_settings: {normalize: true}
behaviors:
  Pyramids:
    hyperparameters:
      learning_rate: 3.0e-4
      learning_rate_schedule: linear
      batch_size: 128
      buffer_size: 2000000
      buffer_init_steps: 1000
      tau: 0.01
      steps_per_update: 10.0
      save_replay_buffer: false
      init_entcoef: 0.01
      reward_signal_steps_per_update: 10.0
    network_settings:
      hidden_units: 512
      num_layers: 3
      vis_encode_type: resnet
      goal_conditioning_type: none
      memory: {sequence_length: 64, memory_size: 128}
    reward_signals:
      extrinsic: {gamma: 0.995, strength: 2.0}
      curiosity:
        gamma: 0.99
        strength: 0.02
        network_settings: {hidden_units: 256, num_layers: 1}
        learning_rate: 0.0003
      rnd: {gamma: 0.9, strength: 0.01, encoding_size: 64}
    keep_checkpoints: 5
    checkpoint_interval: 250000
    max_steps: 3000000
    time_horizon: 128
    summary_freq: 30000
    threaded: true
  Plain: {}
"""


def test_the_newest_layout(tmp_path):
    converted = converted_of(tmp_path, NEWEST, "Pyramids")
    signals = {
        "extrinsic": {"strength": 2.0, "discount": 0.995},
        "curiosity": {"strength": 0.02, "discount": 0.99, "encoding_size": 256,
                      "learning_rate": 0.0003},
        "rnd": {"strength": 0.01, "discount": 0.9, "encoding_size": 64},
    }  # fmt: skip
    assert values_of(converted) == OF_DEFAULT | steps(3_000_000) | layers(512, 3) | alpha(0.01) | {
        "num_steps_per_iter": 1000 // 10, "n_episodes_in_buffer": 2000, "discount": 0.995,
        "n_buffer_init_episodes": 1, "log_period_itrs": 30, "checkpoint_period_itrs": 250,
        "target_update_tau": 0.01, "normalize_observations": True, "image_encoder": "impala",
        "goal_conditioning_type": "none",
        "recurrent": True, "recurrent_sequence_length": 64, "rnn_units": 128 // 2,
        "train_batch_size": 128 // 64, "reward_signals": signals,
    }  # fmt: skip
    assert [note.partition(":")[0] for note in converted.notes] == [
        "reward_signals.curiosity.network_settings.num_layers", "time_horizon 128", "threaded True",
        "save_replay_buffer False", "keep_checkpoints 5", "reward_signal_steps_per_update 10.0",
    ]  # fmt: skip


def test_what_a_section_of_the_newest_layout_lacks_is_the_default_there(tmp_path):
    values = values_of(converted_of(tmp_path, NEWEST, "Plain"))
    expected = OF_DEFAULT | steps(500_000) | rates(1e-3) | {
        "log_period_itrs": 50, "checkpoint_period_itrs": 500, "train_batch_size": 64,
        "learning_rate_schedule": "constant", "normalize_observations": True,
    }  # fmt: skip
    del expected["image_encoder"]
    assert values == expected


SAC = {"trainer_type": "sac", "hyperparameters": {"batch_size": 64}}
BESIDE = {"environment_parameters": {"mass": 1}, "engine_settings": {"time_scale": 2}}


@pytest.mark.parametrize("behavior", [None, "Wall"])
@pytest.mark.parametrize("beside", [{}, {"behaviors": None}, BESIDE])
def test_a_behavior_without_a_section_has_the_default_settings(tmp_path, beside, behavior):
    converted = converted_of(tmp_path, {"default_settings": SAC} | beside, behavior)
    assert converted.settings["train_batch_size"].value == 64
    assert converted.settings["num_iter"].value == 500_000 // HORIZON  # the newest layout's default


def test_a_behavior_without_a_section_has_the_default_of_the_flat_layout(tmp_path):
    converted = converted_of(tmp_path, {"default": DEFAULT, "A": {"batch_size": 3}}, "Wall")
    assert values_of(converted) == OF_DEFAULT


def test_a_wrong_default_is_named_as_such(tmp_path):
    wrong = {"trainer_type": "sac", "hyperparameters": {"batch_size": 0}}
    with pytest.raises(
        ConfigError, match="trainer.yaml: default_settings.batch_size is 0; expected"
    ):
        converted_of(tmp_path, {"default_settings": wrong, "behaviors": {"A": {}}}, "Wall")


def test_network_settings_count_in_place_of_an_encoding_size(tmp_path):
    def signal(**network):
        return {"encoding_size": 64, "network_settings": network}

    given = {"curiosity": signal(hidden_units=256), "rnd": signal(normalize=True)}
    text = {"behaviors": {"A": {"trainer_type": "sac", "reward_signals": given}}}
    converted = converted_of(tmp_path, text)
    assert values_of(converted)["reward_signals"] == {
        "curiosity": {"strength": 1.0, "discount": 0.99, "encoding_size": 256},
        "rnd": {"strength": 1.0, "discount": 0.99},  # the default, as there
    }
    assert [note for note in converted.notes if "encoding_size" in note] == [
        f"reward_signals.{name}.encoding_size 64: network_settings counts" for name in given
    ]


def test_imitation_alone_in_the_newest_layout(tmp_path):
    gail = {"demo_path": "a.demo", "use_vail": True, "network_settings": {"hidden_units": 64}}
    text = {"behaviors": {"A": {"trainer_type": "sac", "reward_signals": {"gail": gail}}}}
    values = values_of(converted_of(tmp_path, text))
    assert values["reward_signals"] == {
        "gail": {"strength": 1.0, "discount": 0.99, "encoding_size": 64, "use_vail": True,
                 "use_terminal_states": True},
    }  # fmt: skip
    assert (values["demonstrations"], values["demonstration_share"]) == (("a.demo",), 0.0)
    assert "discount" not in values


def test_the_layout_before_the_newest_has_a_memory_of_all_networks(tmp_path):
    sac = {"trainer_type": "sac", "network_settings": {"memory": {"memory_size": 64}}}
    text = {"behaviors": {"A": sac}, "parameter_randomization": {"resampling-interval": 5}}
    values = values_of(converted_of(tmp_path, text))
    assert (values["rnn_units"], values["recurrent_sequence_length"]) == (64 // 8, 64)
    del text["parameter_randomization"]
    assert values_of(converted_of(tmp_path, text))["rnn_units"] == 64 // 2


def test_the_flat_layout_with_ratios_and_cloning(tmp_path):
    section = {"steps_per_update": 4, "behavioral_cloning": {"demo_path": "a.demo", "strength": 1}}
    text = {"default": DEFAULT, "Arm": section}
    converted = converted_of(tmp_path, text)
    assert converted.settings["num_steps_per_iter"].value == 1000 // 4
    assert converted.notes[-1] == (
        "behavioral_cloning: set demonstrations and behavioral_cloning: docs/demonstrations.md"
    )


def test_checkpoints_may_be_spread_evenly(tmp_path):
    sac = {"trainer_type": "sac", "even_checkpoints": True, "keep_checkpoints": 4}
    values = values_of(converted_of(tmp_path, {"behaviors": {"A": sac | {"max_steps": 100_000}}}))
    assert values["checkpoint_period_itrs"] == 100 // 4


FLAT = {"default": DEFAULT}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ({"A": {"trainer": "ppo"}}, "A: the trainer is 'ppo'; expected sac."),
        ({"A": {}}, "A: the trainer is missing, which is PPO for ML-Agents; expected sac."),
        ({"behaviors": {"A": {"trainer_type": "poca"}}}, "A: the trainer is 'poca'; expected"),
        (FLAT | {"A": {"self_play": {"window": 10}}}, "A has self_play, which does not exist here"),
        (FLAT | {"A": {"batchsize": 3}}, "A has the unknown key 'batchsize'. Did you mean batch_s"),
        (
            {"behaviors": {"A": {"trainer_type": "sac", "batch_size": 3}}},
            "A has the unknown key 'batch_size'.",
        ),
        (
            {"behaviors": {"A": {"network_settings": {"memory": {"size": 3}}}}},
            "A.network_settings.memory has the unknown key 'size'.",
        ),
        ({"behaviors": {}, "behaviours": {}}, "has the unknown key 'behaviours'. Did you mean beh"),
        ({"behaviors": {}}, "has no behavior, and no default_settings."),
        (BESIDE, "has no behavior, and no default_settings."),
        (BESIDE | {"default": DEFAULT}, "has the unknown key 'default'. Did you mean default_set"),
        (FLAT | {"A": {}, "B": {}}, "has 2 behaviors; choose one with --behavior: A, B."),
        (FLAT | {"A": {"batch_size": "many"}}, "A.batch_size is 'many'; expected a number."),
        (FLAT | {"A": {"batch_size": 10**400}}, "A.batch_size is 1000000"),
        (FLAT | {"A": {"init_entcoef": 0}}, "A.init_entcoef is 0; expected a number > 0."),
        (FLAT | {"A": {"normalize": 3}}, "A.normalize is 3; expected true or false."),
        (FLAT | {"A": {"vis_encode_type": "cnn"}}, "A.vis_encode_type is 'cnn'."),
        (FLAT | {"A": {"vis_encode_type": ["simple"]}}, "A.vis_encode_type is ['simple']."),
        (
            {
                "behaviors": {
                    "A": {
                        "trainer_type": "sac",
                        "network_settings": {"goal_conditioning_type": "hypr"},
                    }
                }
            },
            "A.goal_conditioning_type is 'hypr'. Did you mean hyper",
        ),
        (FLAT | {"A": 3}, "A is 3; expected keys with values."),
        (
            FLAT | {"A": {"reward_signals": {"gail": {"strength": 1}}}},
            "A.reward_signals.gail.demo_path is None; expected a file or a folder.",
        ),
        (
            FLAT | {"A": {"reward_signals": {"extrinsic": {"strength": 0}}}},
            "A.reward_signals has no signal; expected extrinsic, curiosity, rnd, gail.",
        ),
        (
            FLAT | {"A": {"reward_signals": {"curiousity": {}}}},
            "A.reward_signals has the unknown signal 'curiousity'. Did you mean curiosity?",
        ),
        (
            FLAT | {"A": {"reward_signals": {"extrinsic": {"gama": 1}}}},
            "A.reward_signals.extrinsic has the unknown key 'gama'. Did you mean gamma?",
        ),
        ("A: {trainer: sac, trainer: ppo}", "not valid YAML: the key 'trainer' appears twice"),
        ("A: [", "not valid YAML: while parsing"),
        ("- 3", "is [3]; expected keys with values."),
    ],
)
def test_what_has_no_place_is_refused_by_name(tmp_path, text, expected):
    with pytest.raises(ConfigError) as error:
        converted_of(tmp_path, text)
    place = str(error.value).removeprefix(str(tmp_path / "trainer.yaml")).lstrip(": ")
    assert place.startswith(expected)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(ConfigError, match="missing.yaml: cannot read the file of ML-Agents"):
        read_document(tmp_path / "missing.yaml")
