"""Watermarks, order, buffers and timers: no files, topics, formats and engines; elements go in, outputs come out."""
