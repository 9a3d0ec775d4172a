"""Policies that act: NumPy for the built-in networks, a tf.function for any other."""
