"""Prometheus metrics of every process, and its progress reports to its guardian."""
