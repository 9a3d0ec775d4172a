"""Stands for the main module in processes that user code starts with multiprocessing.

They inherit sys.path and sys.argv from the process that started them.
"""

from tfagents_system.core.process.user_modules import find, told_modules
from tfagents_system.core.state.running import modules_in


def main() -> None:
    """Makes this process find the user's modules as its parent does."""
    if told := told_modules():
        params, running = told
        find([params, *(modules_in(running) if running else [])])


if __name__ == "__mp_main__":
    main()
