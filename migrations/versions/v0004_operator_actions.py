"""The audit trail of what operators do beside payments.

Revision ID: 0004
Revises: 0003
"""

from migrations.statements import run_file

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_file("0004_operator_actions.up.sql")


def downgrade() -> None:
    run_file("0004_operator_actions.down.sql")
