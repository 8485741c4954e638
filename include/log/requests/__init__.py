"""Requests and answers: how anyone asks the only writer of a topic for something."""
