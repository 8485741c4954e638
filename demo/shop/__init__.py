"""A shop on a real MySQL-family server: its tables, its orders, and what search must answer for them."""
