from tfagents_system.core.names import did_you_mean


def test_near_name_is_suggested():
    assert did_you_mean("num_iters", ["discount", "num_iter"]) == " Did you mean num_iter?"


def test_without_a_near_name_all_are_listed_in_order():
    assert did_you_mean("xyz", ["num_iter", "discount"]) == " Allowed: discount, num_iter."
