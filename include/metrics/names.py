"""All metric names, each with what a high value means."""

from __future__ import annotations

from typing import Final, Literal, get_args

__all__ = ["COUNTERS", "GAUGES", "HELP", "Counter", "Gauge"]

Counter = Literal[
    "lyrebird_rows_total",
    "lyrebird_transactions_total",
    "lyrebird_skipped_events_total",
    "lyrebird_incidents_total",
    "lyrebird_documents_total",
    "lyrebird_superseded_total",
    "lyrebird_filtered_total",
    "lyrebird_set_aside_total",
    "lyrebird_source_rows_total",
    "lyrebird_source_statements_total",
    "lyrebird_source_held_back_seconds_total",
    "lyrebird_batches_total",
    "lyrebird_retries_total",
    "lyrebird_cuts_total",
    "lyrebird_stored_bytes_total",
    "lyrebird_lost_ranges_total",
    "lyrebird_offset_failures_total",
    "lyrebird_reads_total",
    "lyrebird_compared_total",
    "lyrebird_samples_dropped_total",
    "lyrebird_state_opened_total",
]
Gauge = Literal[
    "lyrebird_lag_seconds",
    "lyrebird_lag_records",
    "lyrebird_position_commit_seconds",
    "lyrebird_batch_seconds",
    "lyrebird_state_rows",
    "lyrebird_state_bytes",
    "lyrebird_state_incomplete",
    "lyrebird_product_outputs",
    "lyrebird_snapshot_rows",
    "lyrebird_source_snapshot_seconds",
    "lyrebird_purge_horizon_hours",
    "lyrebird_tables_set_aside",
    "lyrebird_up_seconds",
]
HELP: Final[dict[str, str]] = {
    "lyrebird_rows_total": "Rows or records read. High: much work.",
    "lyrebird_transactions_total": "Source transactions written to the log.",
    "lyrebird_skipped_events_total": "Row events passed over as their table is set aside, by type. Must be 0.",
    "lyrebird_incidents_total": "Incidents that a person must know of, by kind. High: read the mails.",
    "lyrebird_documents_total": "Documents and tombstones written.",
    "lyrebird_superseded_total": "Records that a newer one of their key made needless (folded or stale).",
    "lyrebird_filtered_total": "Records left out on purpose (transient states, filters).",
    "lyrebird_set_aside_total": "Records not understood, documents that lack a row (by kind). High: see dead letters.",
    "lyrebird_source_rows_total": "Rows that documents read from the source's database. High: much load on it.",
    "lyrebird_source_statements_total": "Statements by which documents read from the source's database.",
    "lyrebird_source_held_back_seconds_total": "Time that reading waited for `read_rows_per_s`. High: raise the limit.",
    "lyrebird_batches_total": "Batches finished.",
    "lyrebird_retries_total": "Calls made again. High: a server is overloaded or away.",
    "lyrebird_cuts_total": "Cuts committed to object storage, by group. High: the upload policy makes small objects.",
    "lyrebird_stored_bytes_total": "Bytes of data objects committed to object storage, by group.",
    "lyrebird_lost_ranges_total": "Ranges that Kafka dropped before they were stored, by group. Must be 0.",
    "lyrebird_offset_failures_total": "Failed commits of heads for lag tools, by group. High: those tools are behind.",
    "lyrebird_reads_total": "Fresh reads of searches, by where they were answered. Much of mysql: the index is behind.",
    "lyrebird_compared_total": "Answers of two stores compared, by outcome. All but equal and lag: look at the report.",
    "lyrebird_samples_dropped_total": "Answers not compared, by reason. High: the new store is slow, or much is asked.",
    "lyrebird_state_opened_total": "Buckets of state opened, by how. Much of restored: tasks move, or disks are new.",
    "lyrebird_state_rows": "Rows that a join keeps, by input. High: much state.",
    "lyrebird_state_bytes": "Keys and values that a join keeps. High: restores take long.",
    "lyrebird_state_incomplete": "Join keys that lack outputs. Must be 0: see `max_product_per_change`.",
    "lyrebird_product_outputs": "Most outputs that one record of an input changed in the last batch. High: a hot key.",
    "lyrebird_lag_seconds": "Age of the oldest change not yet copied. High: copies are stale.",
    "lyrebird_lag_records": "Records waiting in the input. High: the application is too slow.",
    "lyrebird_position_commit_seconds": "Commit time (unix seconds) of the last transaction that is complete here.",
    "lyrebird_batch_seconds": "Time that the last batch took. High: batches are too large or a server is slow.",
    "lyrebird_source_snapshot_seconds": "Longest snapshot of the last batch of documents. High: purge waits for it.",
    "lyrebird_snapshot_rows": "Rows read by the running snapshot.",
    "lyrebird_purge_horizon_hours": "Hours until the server purges what capture needs. Low (< 24): act.",
    "lyrebird_tables_set_aside": "Tables whose rows are passed over or may be missing. High: resume them.",
    "lyrebird_up_seconds": "Seconds since the process started. Low again and again: it is being restarted.",
}
COUNTERS: Final[tuple[str, ...]] = get_args(Counter)
GAUGES: Final[tuple[str, ...]] = get_args(Gauge)
