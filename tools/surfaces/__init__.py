"""The public types of each language, as their sources say."""
