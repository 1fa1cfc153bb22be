"""Workers on other people's clients, to queue up with and to compare with."""
