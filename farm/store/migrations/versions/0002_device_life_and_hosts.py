"""Device life, device hosts, priorities, sweeps."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """New columns have defaults that keep the rows of older runs true; two new tables."""
    with op.batch_alter_table("runs") as runs:
        runs.add_column(sa.Column("kind", sa.String(16), nullable=False, server_default="gate"))
        runs.add_column(sa.Column("priority", sa.Integer(), nullable=False, server_default="5"))
        runs.add_column(sa.Column("owner", sa.String(255), nullable=False, server_default=""))
        runs.add_column(sa.Column("sweep", sa.String(64)))
        runs.create_index("ix_runs_sweep", ["sweep"])
    with op.batch_alter_table("jobs") as jobs:
        jobs.add_column(sa.Column("queue", sa.String(64), nullable=False, server_default=""))
        jobs.add_column(sa.Column("content", sa.String(64), nullable=False, server_default=""))
    with op.batch_alter_table("attempts") as attempts:
        attempts.add_column(sa.Column("device", sa.String(255), nullable=False, server_default=""))
    op.create_table(
        "devices",
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("actor", sa.String(255), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("since", sa.Float(53), nullable=False),
        sa.Column("until", sa.Float(53)),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("not_before", sa.Float(53), nullable=False),
        sa.Column("probed", sa.Float(53)),
        sa.Column("facts", sa.Text()),
        sa.PrimaryKeyConstraint("name", name="pk_devices"),
    )
    op.create_table(
        "device_events",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("device", sa.String(255), nullable=False),
        sa.Column("at", sa.Float(53), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("before", sa.String(16), nullable=False),
        sa.Column("after", sa.String(16), nullable=False),
        sa.Column("actor", sa.String(255), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_device_events"),
    )
    op.create_index("ix_device_events_device_at", "device_events", ["device", "at"])


def downgrade() -> None:
    """Drop them again."""
    op.drop_table("device_events")
    op.drop_table("devices")
    with op.batch_alter_table("attempts") as attempts:
        attempts.drop_column("device")
    with op.batch_alter_table("jobs") as jobs:
        jobs.drop_column("content")
        jobs.drop_column("queue")
    with op.batch_alter_table("runs") as runs:
        runs.drop_index("ix_runs_sweep")
        for name in ("sweep", "owner", "priority", "kind"):
            runs.drop_column(name)
