"""What the author of a job writes against, and what is checked of it."""
