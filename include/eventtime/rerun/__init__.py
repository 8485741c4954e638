"""A day of a job once more, from its savepoint: the same outputs have to come of it."""
