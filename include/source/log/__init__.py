"""The log as a capture writes it: one fenced writer, groups of records, where the last one ended."""
