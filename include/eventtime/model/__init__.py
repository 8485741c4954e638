"""The interface that the author of a job writes against, and the checks of what was written."""
