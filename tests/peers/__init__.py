"""Workers on other lock clients, for mixed queues and for comparison."""
