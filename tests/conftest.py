"""Sets up all tests."""

import signal

# A script's background jobs ignore it, and so would all programs that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)
