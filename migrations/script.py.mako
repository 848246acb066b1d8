"""${message}.

Revision ID: ${up_revision}
Revises: ${down_revision | comma,n}
"""

from migrations.statements import run_file

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_file("${up_revision}_NAME.up.sql")


def downgrade() -> None:
    run_file("${up_revision}_NAME.down.sql")
