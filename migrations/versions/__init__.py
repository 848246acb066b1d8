"""One module a revision; its SQL stands in migrations/sql."""
