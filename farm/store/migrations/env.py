"""Alembic's door: runs on the connection that ``farm.store.database`` hands over, inside its transaction."""

from alembic import context

from farm.store.models import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    render_as_batch=True,  # SQLite cannot alter most things in place
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
