"""Tests of the `zklock` command, run as a shell runs it."""
