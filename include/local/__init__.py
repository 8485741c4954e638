"""The one-machine stack: real servers, started natively, without Docker and without root."""
