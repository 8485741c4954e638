"""Groups stored as they grow: a driver that plans, tasks that write cuts, and what they tell."""
