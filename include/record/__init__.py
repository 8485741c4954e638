"""What a change is, where it stands, how it is named and encoded. No input or output in this layer."""
