"""What a soak measures, and what it says of it."""
