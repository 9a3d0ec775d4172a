"""Communication between processes through Reverb. Only this package imports reverb."""
