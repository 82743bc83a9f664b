"""Order only: which task runs after which."""
