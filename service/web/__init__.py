"""Health and metrics; the operator API and the console will live here."""
