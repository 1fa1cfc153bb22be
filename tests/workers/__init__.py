"""One worker program per language: it does with locks what the line protocol tells it to do."""
