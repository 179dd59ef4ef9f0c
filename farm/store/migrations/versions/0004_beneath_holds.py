"""What a hold of a device lies upon."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """A hold of before lies upon a device that is ready, as it was read until now."""
    with op.batch_alter_table("devices") as devices:
        devices.add_column(sa.Column("beneath", sa.Text()))


def downgrade() -> None:
    """Drop it again."""
    with op.batch_alter_table("devices") as devices:
        devices.drop_column("beneath")
