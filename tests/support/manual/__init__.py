"""Pages of the manual that are made from the code: `python -m tests.support.manual` writes them, tests compare them."""
