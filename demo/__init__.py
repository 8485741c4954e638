"""`lyrebird demo`: the whole platform on this machine, with a shop that orders and a screen that shows the way."""
