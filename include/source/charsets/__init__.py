"""Texts of MySQL's charsets."""
