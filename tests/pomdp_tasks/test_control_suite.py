import numpy as np

from tfagents_system.tasks.control_suite import gray


def test_gray_weighs_red_green_and_blue():
    colors = np.uint8([[[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 255], [10, 20, 30]]])
    mixed = 0.2989 * 10 + 0.587 * 20 + 0.114 * 30
    expected = [0.2989 * 255, 0.587 * 255, 0.114 * 255, 255, mixed]
    frame = gray(colors)
    assert frame.dtype == np.uint8 and frame.shape == (1, 5, 1)
    assert frame.ravel().tolist() == [round(brightness) for brightness in expected]
