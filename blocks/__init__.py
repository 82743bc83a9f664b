"""What an operator configures in the Prefect UI."""
