"""The benchmark of locks: `make bench`."""
