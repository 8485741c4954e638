"""Tables read in chunks beside the stream."""
