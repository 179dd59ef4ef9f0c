"""Runs, jobs, attempts and leases."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the first tables."""
    op.create_table(
        "runs",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("suite", sa.String(255), nullable=False),
        sa.Column("engine", sa.String(255), nullable=False),
        sa.Column("command", sa.Text(), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("driver", sa.String(64), nullable=False),
        sa.Column("created", sa.Float(53), nullable=False),
        sa.Column("seen", sa.Float(53), nullable=False),
        sa.Column("finished", sa.Float(53)),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
    )
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("run_id", sa.String(64), nullable=False),
        sa.Column("device", sa.String(255), nullable=False),
        sa.Column("case", sa.String(255), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("cost", sa.Float(53), nullable=False),
        sa.Column("timeout", sa.Float(53), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("not_before", sa.Float(53), nullable=False),
        sa.Column("dispatched", sa.Float(53)),
        sa.Column("created", sa.Float(53), nullable=False),
        sa.Column("started", sa.Float(53)),
        sa.Column("finished", sa.Float(53)),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("result", sa.Text()),
        sa.Column("error", sa.Text()),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_jobs_run_id_runs"),
    )
    op.create_index("ix_jobs_run_id_status", "jobs", ["run_id", "status"])
    op.create_index("ix_jobs_device_status", "jobs", ["device", "status"])
    op.create_table(
        "attempts",
        sa.Column("job_id", sa.String(64), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("token", sa.Integer(), nullable=False),
        sa.Column("worker", sa.String(255), nullable=False),
        sa.Column("started", sa.Float(53), nullable=False),
        sa.Column("ended", sa.Float(53)),
        sa.Column("outcome", sa.String(16), nullable=False),
        sa.Column("error", sa.Text()),
        sa.PrimaryKeyConstraint("job_id", "number", name="pk_attempts"),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_attempts_job_id_jobs"),
    )
    op.create_table(
        "leases",
        sa.Column("device", sa.String(255), nullable=False),
        sa.Column("token", sa.Integer(), nullable=False),
        sa.Column("holder", sa.String(255), nullable=False),
        sa.Column("expires", sa.Float(53), nullable=False),
        sa.PrimaryKeyConstraint("device", name="pk_leases"),
    )


def downgrade() -> None:
    """Drop them again."""
    for table in ("leases", "attempts", "jobs", "runs"):
        op.drop_table(table)
