"""`lyrebird binlog cat`: row changes as people read them."""
