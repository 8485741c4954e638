"""Event time: a process function for each key, fed in one total order, so that a replay equals the live run.

`model` is what the author of a job writes against, `algorithm` what is decided, `config` what a deployment declares,
`jobs` are the jobs that come along.
"""
