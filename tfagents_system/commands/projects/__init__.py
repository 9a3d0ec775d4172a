"""Projects of environments: names, options, and the files that are written for them."""
