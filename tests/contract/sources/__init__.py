"""Records as foreign sources send them: own payloads of the sources' shapes."""
