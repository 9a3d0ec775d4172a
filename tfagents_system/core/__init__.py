"""Settings, checks and pure logic shared by every program; standard library, NumPy and jsonschema only."""
