"""One module a schema. A published one is never edited: it has already run somewhere."""
