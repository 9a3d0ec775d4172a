import pytest

from tfagents_system.core.process.background import BackgroundCall, raise_failures, start_thread


def fail():
    raise KeyError("shape")


def test_what_ends_a_thread_is_raised_once_in_the_programs_loop(capsys):
    start_thread(lambda: None, "quick").join()
    raise_failures()
    start_thread(fail, "variables").join()
    with pytest.raises(KeyError, match="shape"):
        raise_failures()
    raise_failures()
    assert capsys.readouterr().out == (
        "The thread 'variables' has failed (KeyError('shape')): the program ends.\n"
    )


def test_a_call_raises_for_whoever_waits_for_its_end():
    assert BackgroundCall(lambda: None).is_done(10)
    call = BackgroundCall(fail)
    for _ in range(2):
        with pytest.raises(KeyError):
            call.is_done(10)
    raise_failures()
