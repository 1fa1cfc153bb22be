"""Other libraries' interfaces to zklock's locks, for programs that move to it."""
