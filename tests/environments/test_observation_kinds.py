import gym
import numpy as np
import pytest

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.observation_kinds import (
    ENTITIES,
    GOAL,
    is_entities,
    is_goal,
    marked,
    unmarked,
)
from tfagents_system.data.images import is_image, layout_of, looks_like_image
from tfagents_system.environments.construction import make_collect_environment
from tfagents_system.train_params_base import TrainParamsBase


class Yard(gym.Env):
    """Shows blocks and trees, and a vector."""

    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, nests):
        blocks = gym.spaces.Box(-9, 9, (5, 3), np.float32)
        trees = gym.spaces.Box(0, 255, (30, 40), np.uint8)
        speed = gym.spaces.Box(-9, 9, (2,), np.float32)
        yard = gym.spaces.Dict(trees=trees, blocks=blocks)
        self.observation_space = gym.spaces.Dict(yard=yard, speed=speed) if nests else blocks

    def reset(self):
        return self.observation_space.sample()

    def step(self, action):
        return self.observation_space.sample(), 0.0, False, {}


class Params(TrainParamsBase):
    nests = True

    def env_ctor(self, *args, seed=None, **kwargs):
        return Yard(self.nests)


def specs_with(nests=True, **settings):
    params = Params({"horizon": 9})
    params.nests = nests
    for name, value in settings.items():
        setattr(params, name, value)
    params.check("params.py")
    return make_collect_environment(params, seed=0).observation_spec()


def test_the_arrays_that_are_named_are_lists_of_entities_and_no_images():
    guessed = specs_with()
    assert not is_entities(guessed["yard"]["blocks"])
    assert layout_of(guessed["yard"]["trees"]) == "HW"
    spec = specs_with(entity_observations=["yard/blocks", "yard/trees"])
    assert is_entities(spec["yard"]["blocks"]) and not is_entities(spec["speed"])
    trees = spec["yard"]["trees"]
    assert is_entities(trees) and not is_image(trees) and not looks_like_image(trees)
    assert (trees.shape, trees.dtype) == ((30, 40), np.uint8)
    assert is_entities(specs_with(nests=False, entity_observations=["observation"]))


def test_goals_are_marked_unless_they_are_inputs_like_others():
    goals = {"goal_observations": ["speed", "yard/blocks"]}
    spec = specs_with(**goals, entity_observations=["yard/blocks"])
    assert is_goal(spec["speed"]) and not is_goal(spec["yard"]["trees"])
    assert is_goal(spec["yard"]["blocks"]) and is_entities(spec["yard"]["blocks"])
    spec = specs_with(**goals, entity_observations=["yard/blocks"], goal_conditioning_type="none")
    assert not is_goal(spec["speed"])
    assert not is_goal(spec["yard"]["blocks"]) and is_entities(spec["yard"]["blocks"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"entity_observations": ["yard/blokcs"]},
            r"entity_observations has 'yard/blokcs', which the observation .* has not; expected "
            "speed, yard/blocks, yard/trees",
        ),
        (
            {"entity_observations": ["speed"]},
            r"entity_observations has 'speed', whose shape is \[2\]; expected arrays \[most ent",
        ),
        (
            {"goal_observations": ["goal"]},
            "goal_observations has 'goal', which the observation .* has not; expected speed, ",
        ),
        (
            {"goal_conditioning_type": "hypr"},
            'goal_conditioning_type is \'hypr\'; expected one of "hyper", "none"',
        ),
        ({"entity_observations": "blocks"}, "entity_observations is 'blocks'; expected a list"),
        (
            {"entity_observations": ["speed"], "preprocessing_combiner": len},
            "and there is a preprocessing_combiner; expected one of them: the combiner joins",
        ),
    ],
)
def test_names_that_cannot_be_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        specs_with(**settings)


@pytest.mark.parametrize(
    ("name", "with_mark"),
    [
        (None, "observation.entities"),
        ("blocks", "blocks.entities"),
        ("entities", "entities.entities"),
        ("blocks.entities", "blocks.entities"),
        ("map.CHW", "map.CHW.entities"),
    ],
)
def test_marks_are_words_after_the_own_name(name, with_mark):
    assert marked(name, ENTITIES) == with_mark


def test_a_mark_is_taken_away_alone():
    assert unmarked(marked("blocks.entities", GOAL), GOAL) == "blocks.entities"
    assert unmarked("goal_signal", GOAL) == "goal_signal"
    assert not is_goal(type("Spec", (), {"name": "goal_signal"}))  # its own name
