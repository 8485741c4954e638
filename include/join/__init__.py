"""Joins: any number of keyed changelogs on one join key, without windows; the topic of a join follows its inputs."""
