"""Work on an index beside the stream: tombstones purged, dead letters tried again."""
