"""What a person must know of the lake while it runs."""
