"""zklock's locks with the interfaces of other libraries, for programs that migrate to zklock."""
