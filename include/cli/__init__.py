"""Commands: one module for each stage, imported when it is called."""
