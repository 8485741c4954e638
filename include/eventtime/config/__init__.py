"""Section `eventtime` of the deployment, and the jobs that it names."""
