"""Documents of a topic against the database that they were assembled from."""
