"""Running a training package that is not trusted: its place, its process, what it says and what it leaves."""
