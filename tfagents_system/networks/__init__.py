"""The built-in actor and critic networks."""
