"""The `zklock` command, as a shell sees it."""
