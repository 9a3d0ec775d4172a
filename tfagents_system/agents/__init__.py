"""The built-in agents: SAC, TQC, CrossQ, TD3 and DDPG."""
