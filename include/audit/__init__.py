"""Audits: proofs that a copy is right, and what to do where it is not."""
