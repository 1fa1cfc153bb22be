"""A fleet of clients on one real server, measured: `make bench-scale`."""
