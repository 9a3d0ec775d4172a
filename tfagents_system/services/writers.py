"""Opens Reverb's writers safely, even if the server is unreachable."""

import reverb

from tfagents_system.services.table_info import table_stats


def open_writer(client: reverb.Client, table: str, timeout_secs: float) -> reverb.TrajectoryWriter:
    """Returns a writer of single rows that does not validate, once the server has answered.

    The constructor of Reverb 0.14 starts a thread before its object is complete: if the server
    refuses the connection meanwhile, the process ends with a segmentation fault. Validation would
    wait for the server without limit.

    Args:
      client: Connection to the replay server.
      table: An existing table.
      timeout_secs: Longest wait for the server's answer.

    Raises:
      TimeoutError: If the server does not answer.
    """
    table_stats(client, table, timeout_secs)
    return client.trajectory_writer(num_keep_alive_refs=1, validate_items=False)
