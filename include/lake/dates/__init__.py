"""What is kept of a topic's dates, so that who asks for some of them, or for what is new, reads no commit twice."""
