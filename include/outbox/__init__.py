"""Mails that wait for a mail server, and the one process that sends them. Standard library alone."""
