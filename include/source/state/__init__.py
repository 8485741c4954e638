"""What capture keeps in its resolved records for a restart."""
