"""What experience looks like: transitions, their packed form, how they lie in items; no Reverb."""
