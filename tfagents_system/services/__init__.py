"""What crosses process borders through Reverb; the only importer of reverb."""
