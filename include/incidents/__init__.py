"""Incidents of running applications: kinds that stages declare, and a ledger of what is open."""
