"""Bulk requests: their lines, when each is sent, what answers mean."""
