"""Groups of the lake in processes that are killed and stopped at every step, and a verifier that shares nothing.

```
fault_switch  ends or stops its own process at a named step
workers       a pool whose tasks run in forked processes
program       the process that is hit: a host with its driver and its workers
scenarios     who is hit where, how, and who goes on
traffic       what is written meanwhile, some of it in transactions that are aborted
versioned_s3  an S3 server that keeps every version of an object
conductor     one scenario from its topic to its end
on_spark      the same where tasks are in Spark's workers
preload       what each process needs, loaded once
kafka_reader  what Kafka has in the end
chains        what the bucket says of a run, by plain listings and JSON
verifier      every offset once, as Hadoop's reader finds it
```
"""
