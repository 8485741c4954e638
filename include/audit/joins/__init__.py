"""The audit of joins: what SQL says of the inputs, against the joined topic."""
