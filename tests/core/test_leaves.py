from tfagents_system.core.leaves import names_of, only, without

NEST = {"arm": {"angle": 1, "torque": 2}, "goal": 3, "pair": (4, 5)}


def test_leaves_and_dicts_are_left_out_by_their_names():
    assert without(NEST, ["goal", "arm/torque"]) == {"arm": {"angle": 1}, "pair": (4, 5)}
    assert without(NEST, ["arm"]) == {"goal": 3, "pair": (4, 5)}
    assert without(NEST, ["arm/angle", "arm/torque"]) == {"goal": 3, "pair": (4, 5)}
    assert without(NEST, ["arm", "goal", "pair"]) == {}


def test_what_has_none_of_the_names_is_returned_itself():
    assert without(NEST, []) is NEST
    assert without(NEST, ["torque", "arm/goal", "pair/0"]) is NEST
    assert without((1, 2), ["0"]) == (1, 2)
    empty = {"a": {}, "b": 1}
    assert without(empty, ["c"]) is empty


def test_an_observation_keeps_only_what_the_spec_has():
    spec = {"arm": {"angle": None}, "pair": None}
    assert only(NEST, spec) == {"arm": {"angle": 1}, "pair": (4, 5)}
    assert only(NEST, without(NEST, ["goal"])) == {k: NEST[k] for k in ("arm", "pair")}
    assert only(NEST, NEST) is NEST
    assert only(7, "a spec") == 7


def test_names_of_dicts_come_before_those_of_their_leaves():
    assert list(names_of(NEST)) == ["arm", "arm/angle", "arm/torque", "goal", "pair"]
    assert list(names_of(7)) == []
