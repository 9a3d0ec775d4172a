import numpy as np
import pytest
from undisplayed import run_undisplayed

from tfagents_system.tasks.control_suite import gray


def test_gray_weighs_red_green_and_blue():
    colors = np.uint8([[[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 255], [10, 20, 30]]])
    mixed = 0.2989 * 10 + 0.587 * 20 + 0.114 * 30
    expected = [0.2989 * 255, 0.587 * 255, 0.114 * 255, 255, mixed]
    frame = gray(colors)
    assert frame.dtype == np.uint8 and frame.shape == (1, 5, 1)
    assert frame.ravel().tolist() == [round(brightness) for brightness in expected]


SHADOW = """
import numpy as np
from tfagents_system.core.errors import ConfigError
from tfagents_system.tasks import partial
from tfagents_system.tasks.control_suite import gray

try:
    environment = partial.load("cartpole-balance-pixels", seed=3)
    image = environment.reset().observation.astype(int)
except ConfigError as error:
    print(error)
else:
    drawn = gray(environment.gym.env.physics.render(84, 84, camera_id=0))
    floor = slice(55, 84)  # rows; the cart casts its shadow of some 3 x 13 pixels on it
    rows, columns, _ = np.nonzero(image[floor] - drawn[floor] > 10)
    print(len(rows) > 20, np.ptp(rows) < 5, np.ptp(columns) < 20)
"""


def test_the_shadow_that_dm_control_draws_is_not_in_the_image():
    pytest.importorskip("dm_control")
    done = run_undisplayed(SHADOW)
    assert done.stdout.split() == 3 * ["True"], done.stderr
