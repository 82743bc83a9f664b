"""What the parties say to each other: documents, admission rules, error codes, limits. Imports nothing of ours."""
