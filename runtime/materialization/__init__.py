"""Data sets as files: from the store through a cache that all executions of a machine share."""
