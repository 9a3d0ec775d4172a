"""What acts in an environment: NumPy for the built-in networks, a tf.function for any other."""
