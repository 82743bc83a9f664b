"""Package archives: what a ZIP may be, how it is read, unpacked and written."""
