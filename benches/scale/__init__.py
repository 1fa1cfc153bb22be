"""Measures many clients on one real server (a *fleet*): `make bench-scale`."""
