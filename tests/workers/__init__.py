"""One worker program for each language: it does to locks what the line protocol tells it."""
