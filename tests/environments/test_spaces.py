import gym
import numpy as np
import pytest

from tfagents_system.core.categories import is_category
from tfagents_system.core.errors import ConfigError
from tfagents_system.environments import spaces

try:
    import gymnasium
except ImportError:
    gymnasium = None
LIBRARIES = [
    gym,
    pytest.param(
        gymnasium,
        marks=pytest.mark.skipif(gymnasium is None, reason="gymnasium is not installed"),
    ),
]


def box(low, high, shape=None, dtype=np.float32, library=gym):
    return library.spaces.Box(np.array(low, dtype), np.array(high, dtype), shape, dtype)


@pytest.mark.parametrize("library", LIBRARIES)
def test_observation_spec_of_nested_space_keeps_structure_and_names(library):
    space = library.spaces.Dict(
        camera=library.spaces.Box(0, 255, (4, 5, 3), np.uint8),
        pair=library.spaces.Tuple(
            [library.spaces.Discrete(3), library.spaces.Box(-1.0, 2.0, (2,), np.float64)]
        ),
        flags=library.spaces.MultiBinary(6),
        modes=library.spaces.MultiDiscrete([2, 5]),
    )

    spec = spaces.observation_spec(space, "Env")

    assert set(spec) == {"camera", "pair", "flags", "modes"}
    camera = spec["camera"]
    assert (camera.shape, camera.dtype, camera.minimum, camera.maximum) == (
        (4, 5, 3),
        np.uint8,
        0,
        255,
    )
    count, position = spec["pair"]
    assert (count.shape, count.dtype, count.minimum, count.maximum) == ((), np.int64, 0, 2)
    assert (position.shape, position.dtype) == ((2,), np.float32)
    assert (position.minimum, position.maximum) == (-1.0, 2.0)
    assert (spec["flags"].shape, spec["flags"].dtype, spec["flags"].maximum) == ((6,), np.int32, 1)
    assert spec["modes"].dtype == np.int64
    np.testing.assert_array_equal(spec["modes"].maximum, [1, 4])
    assert (camera.name, position.name) == ("observation/camera", "observation/pair/tuple_1")


@pytest.mark.parametrize("library", LIBRARIES)
def test_an_observation_among_n_is_a_category_and_other_integers_are_numbers(library):
    of = library.spaces
    for space, expected in [
        (of.Discrete(3), True),
        (of.Discrete(10_000), True),
        (of.Discrete(10_001), False),  # a counter, not a choice
        (of.MultiDiscrete([32, 11, 2]), True),
        (of.MultiDiscrete([5_000, 5_001]), False),
        (of.MultiBinary(6), False),
        (of.Box(0, 3, (2,), np.int64), False),
        (of.Box(0, 3, (), np.int64), False),
    ]:
        assert is_category(spaces.observation_spec(space, "Env")) == expected, space
    assert not is_category(spaces.action_spec(of.Discrete(3), "Env"))
    inner = spaces.observation_spec(of.Dict(place=of.Discrete(3), x=of.Box(0, 3, (1,))), "Env")
    assert {key: is_category(spec) for key, spec in inner.items()} == {"place": True, "x": False}


def test_observation_spec_of_bool_box_is_uint8():
    spec = spaces.observation_spec(gym.spaces.Box(False, True, (2,), bool), "Env")
    assert (spec.dtype, spec.minimum, spec.maximum) == (np.uint8, 0, 1)


def test_observation_spec_of_infinite_box_is_float32_range():
    spec = spaces.observation_spec(box([-np.inf], [np.inf], dtype=np.float64), "Env")
    limit = np.finfo(np.float32).max
    assert (spec.minimum, spec.maximum) == (-limit, limit)


def test_discrete_with_start_shifts_the_bounds():
    spec = spaces.action_spec(gym.spaces.Discrete(3, start=-1), "Env")
    assert (spec.dtype, spec.minimum, spec.maximum) == (np.int64, -1, 1)


def test_float64_bounds_round_outwards_for_observations_and_inwards_for_actions():
    space = box([-0.1], [0.1], dtype=np.float64)  # float32(0.1) = 0.100000001...: beyond 0.1

    observation = spaces.observation_spec(space, "Env")
    action = spaces.action_spec(space, "Env")

    assert float(observation.maximum) >= 0.1 and float(observation.minimum) <= -0.1
    assert float(action.maximum) <= 0.1 and float(action.minimum) >= -0.1
    assert action.maximum.dtype == np.float32
    assert np.nextafter(action.maximum, np.float32(1)) == observation.maximum


class Orders(gym.spaces.Space):
    """Strings, in a class of a package's own."""

    def __init__(self):
        super().__init__(dtype=str)


TALKING = gym.spaces.Dict(
    eye=box([0], [1]), mission=Orders(), inner=gym.spaces.Dict(x=box([0], [1]), word=Orders())
)


def test_texts_in_dicts_are_left_out_of_observations():
    spec = spaces.observation_spec(TALKING, "Env")
    assert {key: list(part) for key, part in spec.items() if key != "eye"} == {"inner": ["x"]}
    assert spaces.texts_in(TALKING) == ["observation/inner/word", "observation/mission"]
    assert spaces.texts_in(box([0], [1])) == []
    observation = {"eye": [0.5], "mission": "go", "inner": {"x": [0.25], "word": "left"}}
    spaces.check_observation(observation, TALKING, spec, "Env")
    cast = spaces.observation_cast(spec)(observation)
    assert cast == {"eye": np.float32([0.5]), "inner": {"x": np.float32([0.25])}}
    without = {"eye": [0.5], "inner": observation["inner"]}
    with pytest.raises(ConfigError, match=r"keys \['eye', 'inner', 'mission'\] but returned"):
        spaces.check_observation(without, TALKING, spec, "Env")


@pytest.mark.parametrize(
    ("space", "leaf"),
    [
        (Orders(), "observation"),
        (gym.spaces.Dict(mission=Orders()), "observation/mission"),
        (gym.spaces.Dict(x=box([0], [1]), inner=gym.spaces.Dict(a=Orders(), b=Orders())),
         "observation/inner/a"),
        (gym.spaces.Tuple([box([0], [1]), Orders()]), "observation/tuple_1"),
    ],
)  # fmt: skip
def test_a_text_that_cannot_be_left_out_is_refused_by_name(space, leaf):
    with pytest.raises(ConfigError, match=f"Env has the {leaf} space .* Convert it in a wrapper"):
        spaces.observation_spec(space, "Env")
    with pytest.raises(ConfigError, match="Env has the action/inner/word space"):
        spaces.action_spec(TALKING, "Env")


def test_subclass_of_a_space_is_supported():
    class Torques(gym.spaces.Box):
        pass

    assert spaces.action_spec(Torques(-2.0, 2.0, (3,), np.float32), "Env").maximum == 2.0


def test_unsupported_space_raises_with_its_name():
    class Words(gym.spaces.Space):
        pass

    with pytest.raises(ConfigError, match="Env has the observation/text space .*Supported: Box"):
        spaces.observation_spec(gym.spaces.Dict(text=Words()), "Env")


@pytest.mark.parametrize("high", [np.inf, 3e38])
def test_unbounded_action_raises_and_names_the_dimension(high):
    space = box([-1, -high], [1, high])
    with pytest.raises(ConfigError, match=r"Env has an unbounded action .*\[1\].*finite bounds"):
        spaces.action_spec(space, "Env")


def test_observation_cast_casts_leaves_and_keeps_structure():
    space = gym.spaces.Dict(
        position=box([-9, -9], [9, 9], dtype=np.float64),
        parts=gym.spaces.Tuple([gym.spaces.Discrete(5), gym.spaces.Box(0, 9, (2,), np.uint8)]),
    )
    cast = spaces.observation_cast(spaces.observation_spec(space, "Env"))

    result = cast({"position": [0.1, 2.0], "parts": (4, np.array([7, 8], np.uint8)), "extra": 0})

    assert set(result) == {"position", "parts"}
    np.testing.assert_array_equal(result["position"], np.array([0.1, 2.0], np.float32))
    assert result["position"].dtype == np.float32
    count, pixels = result["parts"]
    assert (count, count.dtype, count.shape) == (4, np.int64, ())
    assert pixels.tolist() == [7, 8] and pixels.dtype == np.uint8


def test_observation_cast_copies():
    cast = spaces.observation_cast(spaces.observation_spec(box([0], [9]), "Env"))
    reused = np.array([1.0], np.float32)
    first = cast(reused)
    reused[0] = 2.0
    assert first.tolist() == [1.0]


def test_action_cast_clips_rounding_and_returns_a_new_array():
    cast = spaces.action_cast(spaces.action_spec(box([-2, -1], [2, 1]), "Env"), "Env")
    action = np.array([np.nextafter(np.float32(2), np.float32(3)), 0.5], np.float32)

    result = cast(action)

    assert result.tolist() == [2.0, 0.5] and result.dtype == np.float32
    assert result is not action and action[0] > 2.0


def test_action_cast_of_list_and_float64_gives_float32():
    cast = spaces.action_cast(spaces.action_spec(box([-2], [2]), "Env"), "Env")
    assert cast([0.25]).dtype == np.float32
    assert cast(np.array([0.25])).dtype == np.float32


@pytest.mark.parametrize("action", [[2.001], [-2.001]])
def test_action_out_of_bounds_raises(action):
    cast = spaces.action_cast(spaces.action_spec(box([-2], [2]), "Env"), "Env")
    with pytest.raises(ValueError, match=r"Action .* of Env is outside its bounds \[-2.0, 2.0\]"):
        cast(np.array(action, np.float32))


def test_action_of_wrong_shape_raises():
    cast = spaces.action_cast(spaces.action_spec(box([-2, -2], [2, 2]), "Env"), "Env")
    with pytest.raises(ValueError, match=r"shape \(1, 2\); expected \(2,\)"):
        cast(np.zeros((1, 2), np.float32))


def test_discrete_action_becomes_a_python_int_within_bounds():
    cast = spaces.action_cast(spaces.action_spec(gym.spaces.Discrete(3), "Env"), "Env")
    assert type(cast(np.array(2))) is int
    with pytest.raises(ValueError, match=r"Action 3 of Env is outside 0\.\.2"):
        cast(np.int64(3))


def test_multi_discrete_action_out_of_bounds_raises():
    cast = spaces.action_cast(spaces.action_spec(gym.spaces.MultiDiscrete([2, 4]), "Env"), "Env")
    assert cast(np.array([1, 3])).tolist() == [1, 3]
    with pytest.raises(ValueError, match="outside its bounds"):
        cast(np.array([2, 3]))


def test_nested_action_is_cast_leaf_by_leaf():
    space = gym.spaces.Dict(
        grip=gym.spaces.Discrete(2), arms=gym.spaces.Tuple([box([-1], [1]), box([-3], [3])])
    )
    cast = spaces.action_cast(spaces.action_spec(space, "Env"), "Env")

    result = cast({"grip": np.array(1), "arms": (np.array([0.5]), np.array([3.0]))})

    assert result["grip"] == 1
    assert [arm.tolist() for arm in result["arms"]] == [[0.5], [3.0]]


@pytest.mark.parametrize(
    ("space", "observation", "message"),
    [
        (box([0, 0], [1, 1]), np.zeros(3), r"shape \(2,\) .* returned shape \(3,\)"),
        (gym.spaces.Discrete(4), 1.5, "dtype int64 but returned shape .* dtype float64"),
        (box([0, 0], [1, 1]), (np.zeros(2), {}), "a tuple that is not an array"),
        (gym.spaces.Dict(a=box([0], [1])), {"b": [0]}, r"keys \['a'\] but returned \['b'\]"),
        (gym.spaces.Dict(a=box([0], [1])), [0], "keys .* but returned <class 'list'>"),
        (gym.spaces.Tuple([box([0], [1])]), (), "Tuple observation space of 1 parts"),
    ],
)
def test_check_observation_raises_where_space_and_observation_differ(space, observation, message):
    spec = spaces.observation_spec(space, "Env")
    with pytest.raises(ConfigError, match=message):
        spaces.check_observation(observation, space, spec, "Env")


def test_check_observation_accepts_what_fits():
    space = gym.spaces.Dict(a=box([0], [1]), b=gym.spaces.Tuple([gym.spaces.Discrete(2)]))
    spec = spaces.observation_spec(space, "Env")
    spaces.check_observation({"a": [1], "b": [True]}, space, spec, "Env")
