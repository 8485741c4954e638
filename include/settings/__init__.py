"""Deployment files: what runs here. Every refusal names file, line, path and the allowed values."""
