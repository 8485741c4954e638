"""Programs of the local stack: found, downloaded, built, once for a machine."""
