"""Keys sorted and ranked outside of the process that walks them."""
