"""What a run with two workers must show after a fault: all go on, and no env step is missing."""

import os
import signal
import time

from faults.experience import account_of, lives_of

from tfagents_system.services.checkpoint_watch import PERIOD_SECS

WORKERS = ("worker_0", "worker_1")
RECOVERY_SECS = 180  # that a cluster may take
# Trains until it is stopped; nothing ever leaves the table.
ENDLESS = """
    num_iter = 1000000
    eval_period_itrs = 200
    n_episodes_in_buffer = 100000
"""


def env_steps(run, worker):
    return run.status(worker).get("env_steps", 0)


def time_recovery(run, ledger, fault, break_it, is_back, limit_secs=RECOVERY_SECS):
    """Breaks something on a cluster and waits until `is_back()`; writes down how long that took."""
    began = time.monotonic()
    break_it()
    try:
        run.wait_for(is_back, limit_secs, f"the recovery: {fault}")
    except BaseException:
        ledger.add(run.PLACEMENT, fault, passed=False)
        print(run.logs(), run.cluster.logs())
        raise
    secs = time.monotonic() - began
    print(f"{fault}: back after {secs:.1f} s")
    ledger.add(run.PLACEMENT, fault, passed=True, recovery_secs=secs)


def kill_program(run, program):
    """Returns (function that kills it, condition: another process of it has reported)."""
    old_pid, killed_at = run.pid(program), []
    status = {"sac_train.py": "learner", "sac_replay_buffer.py": "replay"}.get(
        program, program.replace("sac_collect.py ", "worker_")
    )

    def kill():
        killed_at.append(time.time())
        os.kill(old_pid, signal.SIGKILL)

    def is_back():
        return run.pid(program) not in (None, old_pid) and (
            run.status(status).get("written_at", 0) > killed_at[0]
        )

    return kill, is_back


def kill_in_turn(run, programs, num_steps):
    """Kills one program after another, each when there is a new generation beside an older one.

    Waits each time until worker 0 has taken `num_steps` more env steps.
    """
    for program in programs:
        newest = run.generations()[:1]
        run.wait_for(lambda n=newest: len(run.generations()) > 1 and run.generations()[:1] != n,
                     180, "two generations, a new one")  # fmt: skip
        before = env_steps(run, "worker_0")
        run.kill(program)
        run.wait_for(
            lambda b=before: env_steps(run, "worker_0") > b + num_steps, 120, "more env steps"
        )


def has_all_moving(run):
    """Returns a condition: since now, the learner has trained and both workers have collected."""
    train_step = run.train_step()
    steps = {worker: env_steps(run, worker) for worker in WORKERS}

    def is_moving():
        return run.train_step() > train_step and all(
            env_steps(run, worker) > steps[worker] for worker in WORKERS
        )

    return is_moving


def has_all_moving_after(run, is_back):
    """Returns a condition: `is_back()` holds, and since it first did all have been moving."""
    is_moving = []

    def condition():
        if not is_moving and is_back():
            is_moving.append(has_all_moving(run))
        return bool(is_moving) and is_moving[0]()

    return condition


def await_nothing_missing(run):
    """Waits until all that was lost can have been sent again."""
    for _ in range(3):  # one that shows what is missing, one that has it, and one for good measure
        before = run.generations()[0]
        run.wait_for(lambda n=before: run.generations()[0] > n, 60, "one more generation")
        time.sleep(2 * PERIOD_SECS)  # workers look so often


def stop(run, process):
    os.kill(process.pid, signal.SIGTERM)
    assert run.await_end(process, timeout_secs=120) == 143
    assert run.alive() == {}


def stop_and_account(run, process, ledger, row, num_rejected=0):
    """Stops the run once all that was lost can have been sent again, and counts the env steps.

    All but `num_rejected`, which a worker has refused, must be stored once.
    """
    await_nothing_missing(run)
    stop(run, process)
    account, lives = account_of(run), lives_of(run)
    if account.lost > num_rejected:  # the replay buffer took no more, so journals have it
        process = run.start(num_workers=2)
        await_nothing_missing(run)
        stop(run, process)
        account = account_of(run, lives)
    print(account)
    for what, number in (("lost", account.lost - num_rejected), ("duplicated", account.duplicated)):
        ledger.add(row, f"{number} of {account.stepped:,} env steps {what}", number == 0)
    assert (account.lost, account.duplicated) == (num_rejected, 0)
