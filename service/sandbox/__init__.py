"""What the demo needs: embedded PostgreSQL and broker, a PSP with faults, a story."""
