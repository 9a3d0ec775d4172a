"""Harm that user code does to its process, tried in a process of its own."""

import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

from tfagents_system.core.errors import ConfigError, Interrupt
from tfagents_system.core.process.guest import GUEST, UserCodeError, user_traceback

ROOT = pathlib.Path(__file__).parents[3]
# What user code does, what of it is seen afterwards, and the name in the note.
CHANGES = {
    "signal.signal(signal.SIGTERM, lambda *_: None)": (
        "signal.getsignal(signal.SIGTERM)",
        "the handler of SIGTERM",
    ),
    "signal.signal(signal.SIGINT, signal.SIG_IGN)": (
        "signal.getsignal(signal.SIGINT)",
        "the handler of SIGINT",
    ),
    # As SDL and ROS do, behind Python's back.
    "ctypes.CDLL(None).signal(15, ctypes.c_void_p(1))": (
        "pathlib.Path('/proc/self/status').read_text().split('SigIgn:')[1].split()[0]",
        "the handler of SIGTERM",
    ),
    "signal.signal(signal.SIGPIPE, signal.SIG_DFL)": (
        "signal.getsignal(signal.SIGPIPE)",
        "the handler of SIGPIPE",
    ),
    "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])": (
        "signal.pthread_sigmask(signal.SIG_BLOCK, [])",
        "the signals that are blocked",
    ),
    "signal.set_wakeup_fd(os.memfd_create('x', os.MFD_CLOEXEC) and nonblocking())": (
        "(fd := signal.set_wakeup_fd(-1), signal.set_wakeup_fd(fd))[0]",
        "the file that signals wake up",
    ),
    "signal.alarm(100)": ("signal.getitimer(signal.ITIMER_REAL)[0] > 0", "the alarm"),
    "faulthandler.disable()": ("faulthandler.is_enabled()", "the fault handler"),
    "warnings.simplefilter('error')": (
        "[f for f in warnings.filters if f[0] == 'error']",
        "the warnings that are errors",
    ),
    "sys.excepthook = print": ("sys.excepthook", "sys.excepthook"),
    "sys.setswitchinterval(5)": ("sys.getswitchinterval()", "the thread switch interval"),
    "gc.disable()": ("gc.isenabled()", "the garbage collector"),
    "os.chdir('/')": ("os.getcwd()", "the working directory"),
    "os.umask(0o077)": ("umask()", "the umask"),
    "np.seterr(all='raise')": ("np.geterr()", "NumPy's handling of floating-point errors"),
    "tf.config.threading.set_inter_op_parallelism_threads(1)": (
        "tf.config.threading.get_inter_op_parallelism_threads()",
        "TensorFlow's numbers of threads",
    ),
    "tf.config.experimental.enable_op_determinism()": (
        "bool(tf.random.normal([]).numpy())",  # refused without a seed
        "TensorFlow's determinism",
    ),
    "tf.compat.v1.disable_v2_behavior()": (
        "tf.compat.v1.executing_eagerly_outside_functions()",
        "whether TensorFlow behaves as version 2",
    ),
    "tf.config.run_functions_eagerly(True)": (
        "tf.config.functions_run_eagerly()",
        "whether TensorFlow compiles functions",
    ),
    "tf.keras.backend.set_floatx('float64')": (
        "tf.keras.layers.Dense(1).dtype",
        "Keras's floating point type",
    ),
    "tf.keras.mixed_precision.set_global_policy('mixed_float16')": (
        "tf.keras.layers.Dense(1).compute_dtype",
        "Keras's precision policy",
    ),
    "tf.keras.backend.set_image_data_format('channels_first')": (
        "tf.keras.layers.Conv2D(1, 1).data_format",
        "Keras's format of images",
    ),
    "sys.setrecursionlimit(150)": ("sys.getrecursionlimit()", "the recursion limit"),
    "socket.setdefaulttimeout(0.1)": ("socket.getdefaulttimeout()", "the time-out of sockets"),
    "sys.argv.clear()": ("sys.argv", "sys.argv"),
    "sys.stdout = io.StringIO()": ("type(sys.stdout)", "sys.stdout"),
}
IMPORT_TENSORFLOW = """
import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf
tf.get_logger().setLevel("ERROR")
"""
SCRIPT = """
import ctypes, faulthandler, gc, io, os, pathlib, signal, socket, sys, warnings
import numpy as np
from tfagents_system.core.process.guest import GUEST

def umask():
    value = os.umask(0)
    os.umask(value)
    return value

def nonblocking():
    descriptor = os.pipe()[1]
    os.set_blocking(descriptor, False)
    return descriptor

def state():
    return {seen}

def change():
    {change}

faulthandler.enable()
GUEST.remember()
before = state()
for _ in range(2):
    if {often}:
        GUEST._look_at = 0.0  # as after 50 ms
        GUEST.call_often("Arm.step", change)
    else:
        with GUEST.visit("TrainParams.env_ctor"):
            change()
    assert state() == before, (before, state())
print("as it was")
"""


CASES = [(change, False) for change in CHANGES]
# To load TensorFlow twice as often would take a minute.
CASES += [(change, True) for change in CHANGES if "tf." not in change]
CASES.remove(("sys.stdout = io.StringIO()", True))  # progress bars of ours replace it, too


@pytest.mark.parametrize(("change", "often"), CASES)
def test_what_user_code_changes_is_put_back_and_said_once(change, often):
    seen, name = CHANGES[change]
    script = SCRIPT.format(seen=seen, change=change, often=often)
    if "tf." in change:
        script = IMPORT_TENSORFLOW + script
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "as it was\n", done.stderr
    what = "Arm.step" if often else "TrainParams.env_ctor"
    assert done.stderr.count(f"Note: {what} changed {name}, which was put back") == 1
    assert len(done.stderr.splitlines()) == 1


def run_with_tensorflow(script, **environ):
    """Runs a script with GUEST and TensorFlow as tf; returns the output and the errors."""
    script = f"{IMPORT_TENSORFLOW}\nfrom tfagents_system.core.process.guest import GUEST\n{script}"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=os.environ | environ,
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return done.stdout, done.stderr


def test_user_code_that_loads_tensorflow_has_changed_nothing():
    script = """
import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
from tfagents_system.core.process.guest import GUEST
GUEST.remember()
with GUEST.visit("importing params.py"):
    import tensorflow as tf
    tf.keras.layers.Dense(1)(tf.ones([1, 2]))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_what_cannot_be_put_back_is_said():
    _, errors = run_with_tensorflow("""
GUEST.remember()
with GUEST.visit("TrainParams.env_ctor"):
    tf.compat.v1.disable_v2_behavior()
    tf.compat.v1.placeholder("float32")
""")
    assert errors == (
        "Note: TrainParams.env_ctor changed whether TensorFlow behaves as version 2, which could "
        "not be put back.\n"
    )


def test_keras_computes_as_our_networks_need_whatever_its_file_says(tmp_path):
    file = '{"floatx": "float64", "image_data_format": "channels_first"}'
    (tmp_path / "keras.json").write_text(file)
    output, errors = run_with_tensorflow(
        """
print(tf.keras.backend.floatx(), tf.keras.backend.image_data_format())
GUEST.remember()
print(tf.keras.backend.floatx(), tf.keras.backend.image_data_format())
""",
        KERAS_HOME=str(tmp_path),
    )
    assert output == "float64 channels_first\nfloat32 channels_last\n"
    assert (
        errors.count("Note: an import, a variable of the shell, or ~/.keras/keras.json changed")
        == 2
    )


def test_user_code_finds_its_own_working_directory_again(tmp_path, monkeypatch):
    seen = []
    monkeypatch.chdir(tmp_path)
    (tmp_path / "simulator").mkdir()
    monkeypatch.setattr(GUEST, "_theirs", {})
    monkeypatch.setattr(GUEST, "_ours", {})
    monkeypatch.setattr(sys, "path", list(sys.path))
    GUEST.remember()
    with GUEST.visit("Arm()"):
        (tmp_path / "simulator").joinpath("robot.urdf").touch()
        import os

        os.chdir("simulator")
    assert pathlib.Path.cwd() == tmp_path
    for _ in range(2):
        GUEST._look_at = 0.0  # as after 50 ms
        GUEST.call_often("Arm.step", lambda: seen.append(pathlib.Path("robot.urdf").exists()))
        assert pathlib.Path.cwd() == tmp_path
    with GUEST.visit("Arm.close"):
        os.chdir(tmp_path)
    assert GUEST._theirs == {}
    assert seen == [True, True]


@pytest.mark.parametrize(
    ("raised", "reason"),
    [
        (SystemExit("please set SIM_HOME"), "SystemExit: please set SIM_HOME"),
        (SystemExit(), "SystemExit: exit code 0"),
        (SystemExit(0), "SystemExit: exit code 0"),
        (SystemExit(3), "SystemExit: exit code 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt: no message"),
        (GeneratorExit("g"), "GeneratorExit: g"),
        (ValueError("no motor"), "ValueError: no motor"),
    ],
)
@pytest.mark.parametrize("often", [False, True])
def test_whatever_user_code_raises_is_an_error_with_its_message_and_place(raised, reason, often):
    def build():
        raise raised

    line = build.__code__.co_firstlineno + 1
    with pytest.raises(UserCodeError) as error_info:
        if often:
            GUEST.call_often("Arm()", build)
        else:
            with GUEST.visit("Arm()"):
                build()
    assert str(error_info.value) == f"Arm() raised {reason} ({__file__}:{line})"
    assert error_info.value.reason == reason
    assert error_info.value.__cause__ is raised
    assert not GUEST._is_inside


def test_the_place_is_that_of_the_users_code_not_of_the_library_it_calls():
    import numpy as np

    def build():
        np.zeros(2).reshape(3)
        np.linalg.inv(np.zeros((2, 2)))

    line = build.__code__.co_firstlineno + 1
    with pytest.raises(UserCodeError, match=rf"\({__file__}:{line}\)$"), GUEST.visit("Arm()"):
        build()


@pytest.mark.parametrize("ours", [ConfigError("horizon"), Interrupt()])
def test_what_is_ours_leaves_as_it_is(ours):
    for _ in range(2):
        with pytest.raises(type(ours)) as error_info, GUEST.visit("Arm()"):
            raise ours
        assert error_info.value is ours


def test_a_traceback_for_the_user_has_none_of_our_frames():
    def build():
        raise ValueError("no motor")

    with pytest.raises(UserCodeError) as error_info:
        GUEST.call_often("Arm()", build)
    shown = user_traceback(error_info.value)
    assert "tfagents_system" not in shown.replace(str(ROOT), "")
    assert shown.endswith('    raise ValueError("no motor")\nValueError: no motor\n')


@pytest.mark.parametrize("hangs_in", ["visit", "call_often"])
def test_a_visit_that_hangs_ends_the_process(hangs_in):
    script = textwrap.dedent(f"""
        import time
        from tfagents_system.core.process.guest import GUEST

        def hang():
            time.sleep(60)

        with GUEST.watching(1.0):
            with GUEST.visit("Arm()"):
                pass
            time.sleep(1.5)  # ours: nobody watches
            print("alive", flush=True)
            if {hangs_in == "visit"}:
                with GUEST.visit("Arm()"):
                    hang()
            GUEST.call_often("Arm.step", hang)
    """)
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=30
    )
    assert (done.returncode, done.stdout) == (1, "alive\n")
    assert "in hang" in done.stderr
