"""Current-state tables on the lake: the newest row of each key of a topic, as a Delta table that any engine reads.

```
definition   section `tables`
columns      a table's columns, from Avro, and how they may change
rows         records of topics → the newest row of each key
bucket_file  a bucket's file, written anew with what changed
standing     where a table stands: offsets, floor, label, kept in its own commits
delta_log    its log, through delta-rs
writer       a batch, exactly once
task, stream Spark
```
"""
