"""The format of experience: transitions, packing, layout of items. No Reverb."""
