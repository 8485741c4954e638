"""The log as a data source of Spark."""
