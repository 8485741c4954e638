"""What is asked of the server: connections, its tables, where it stands, whether it fits."""
