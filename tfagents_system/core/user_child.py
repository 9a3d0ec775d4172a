"""Stands for the main module in processes that user code starts with multiprocessing."""

from tfagents_system.core.user_modules import take_over_in_child

if __name__ == "__mp_main__":
    take_over_in_child()
