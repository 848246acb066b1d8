"""Every table of the first release.

Revision ID: 0001
Revises:
"""

from migrations.statements import run_file

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_file("0001_initial.up.sql")


def downgrade() -> None:
    run_file("0001_initial.down.sql")
