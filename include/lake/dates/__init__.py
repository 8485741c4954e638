"""Keeps an index of a topic's objects by date, so that neither a query nor a look for news reads a commit twice."""
