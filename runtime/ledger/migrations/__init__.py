"""Alembic's scripts. A new schema is a new file in `versions/` and a new entry in `runtime.ledger.migration.REVISIONS`."""
