"""Keys of an environment's info that report what happened in the env step."""

ACTION = "action"  # the action that was taken, if not the policy's
INTERVENTION = "intervention"  # whether a person has taken over
