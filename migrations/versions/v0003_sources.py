"""What sources as they are need.

Revision ID: 0003
Revises: 0002
"""

from migrations.statements import run_file

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_file("0003_sources.up.sql")


def downgrade() -> None:
    run_file("0003_sources.down.sql")
