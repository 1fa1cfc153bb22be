"""The worker programs, one for each language. Each executes the lock commands of the line protocol."""
