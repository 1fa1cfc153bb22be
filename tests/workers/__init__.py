"""The worker programs, one for each language. Each executes the lock commands of tests/worker-protocol.md."""
