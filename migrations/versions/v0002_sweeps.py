"""What the sweeps need.

Revision ID: 0002
Revises: 0001
"""

from migrations.statements import run_file

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_file("0002_sweeps.up.sql")


def downgrade() -> None:
    run_file("0002_sweeps.down.sql")
