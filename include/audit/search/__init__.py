"""The audit of a search index: which documents of a topic it lacks, holds in excess, or holds otherwise."""
