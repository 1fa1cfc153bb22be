"""The benchmark of locks on three servers with a network: `make bench-cluster`."""
