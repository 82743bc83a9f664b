"""Runs the scripts on the connection, and in the transaction, that `runtime.ledger.migration` hands over."""

from alembic import context

from runtime.ledger.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
)
context.run_migrations()
