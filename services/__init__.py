"""Long-running doors and the command line."""
