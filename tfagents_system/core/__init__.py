"""Settings, checks and pure logic shared by every program; without TensorFlow."""
