"""The one writer of a topic that an application makes: outputs, ends, dead letters in one transaction."""
