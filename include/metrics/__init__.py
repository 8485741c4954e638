"""What every process shows of itself: Prometheus metrics and, to its guardian, progress."""
