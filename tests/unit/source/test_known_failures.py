"""Where other capture tools fail their users, and the tests that show that Lyrebird does not fail in that way.

Numbers are those of public issue trackers: DBZ, dbz (Debezium), maxwell, airbyte, flink-cdc, go-mysql, and so on. Files
without a folder lie below this one's. Every name below is checked to be a test that there is.

A parser of DDL stops the stream (dbz#2321 #2401 #2224, DBZ-9623 -9411; maxwell #1457 #416 #1303 #2100)
    test_known_failures_ddl.py::test_a_statement_that_stopped_others_has_its_effect_and_the_rows_after_it_are_read
    test_known_failures_ddl.py::test_rows_that_a_statement_made_as_text_are_never_passed_over
    test_ddl.py::test_any_text_has_effects_or_is_refused
    tests/prove/test_known_failures.py::test_rows_around_every_statement_are_read_as_servers_log_them
    tests/integration/source/test_known_failures.py::test_a_truncate_in_other_letters_empties_the_copy
A schema history is lost, grows, is slow (dbz#2047, DBZ-8562; airbyte #74002; Altinity #507; risingwave #14394)
    test_known_failures_stream.py::test_rows_of_before_an_alter_are_read_by_the_map_of_their_time
    test_known_failures_stream.py::test_names_of_today_are_not_given_to_columns_of_yesterday
    tests/integration/source/test_known_failures.py::test_a_snapshot_gives_rows_what_an_alter_gave_them_without_logging_it
    test_known_failures_stream.py::test_a_restart_needs_nothing_but_the_last_resolved_record_however_often_tables_were_altered
Compressed binlog: no row, position moves on (maxwell PR #2254; osheroff #19; shyiko #325; go-mysql #533; DBZ-9367)
    test_known_failures_values.py::test_compressed_rows_that_others_pass_over_are_read
    test_compression.py::test_compressed_rows_are_as_plain_ones
    test_compression.py::test_a_payload_never_grows_beyond_what_it_says
Slow snapshots that begin anew (Altinity #722; redpanda #4341; dbz#1829; DBZ-7421; maxwell #1475)
    test_key_range.py::test_what_is_finished_is_left_no_more_and_all_else_is
    test_key_range.py::test_ranges_keep_their_bounds_in_the_resolved_record
    tests/integration/source/test_snapshots.py::test_a_snapshot_under_writers_that_is_killed_ends_as_the_tables
    tests/prove/test_capture_snapshots.py::test_a_snapshot_under_writers_with_kills_is_the_table
Incremental snapshots hang, or skip rows (dbz#2105 #2275 #2204; DBZ-8273 -9209 -9337 -5071)
    test_readers.py::test_the_streams_thread_does_not_wait_while_the_server_lets_a_reader_wait
    tests/integration/source/test_known_failures.py::test_a_table_that_somebody_locks_holds_back_neither_stream_nor_other_tables
    test_readers.py::test_a_key_that_changes_under_several_readers_leaves_no_range_unread
    test_watermark_window.py::test_a_chunk_of_before_an_alter_that_the_stream_has_passed_is_read_again
    tests/prove/test_known_failures.py::test_no_setting_of_the_server_cuts_pads_or_ends_what_is_selected
    test_watermark_window.py::test_notes_of_more_changes_than_memory_should_hold_are_lost_and_chunks_of_before_read_again
The watermark window of snapshot and stream (flink-cdc #784 #1414 #2794; DBZ-9006 -7716)
    test_watermark_window.py::test_no_key_ever_steps_back_and_the_topic_ends_as_the_table
    tests/integration/source/test_snapshots.py::test_a_table_emptied_altered_or_swapped_while_it_is_read_ends_as_it_is
    tests/prove/test_capture_faults.py::test_fifty_kills_at_any_moment_beside_snapshots_lose_and_double_nothing
    tests/prove/test_capture_xa.py::test_a_snapshot_does_not_lack_a_prepared_transaction
GTIDs, failover, purge (DBZ-923 -9682; dbz#2266; flink-cdc #271 #845; python-mysql-replication #367)
    test_known_failures_stream.py::test_a_set_with_holes_and_a_server_that_is_new_lose_no_transaction
    test_binlog.py::test_a_purged_binlog_stops_the_source_with_the_way_out
    test_purge.py::test_of_two_limits_the_nearer_one_counts
    tests/integration/source/test_failover.py::test_a_promoted_replica_takes_over_once_it_has_what_was_captured
    tests/integration/source/test_failover.py::test_a_server_that_has_lost_what_was_captured_is_refused_in_the_end
    tests/prove/test_capture_drills.py::test_a_promoted_replica_takes_over
    tests/prove/test_capture_faults.py::test_a_purged_position_stops_capture_which_then_reads_everything_anew
A resume inside of a transaction, log_pos 0 (python #44 #252 #314; ghostferry #156; go-mysql #901 #1052; dbtrail #1117)
    test_known_failures_stream.py::test_whatever_a_stream_is_cut_at_each_row_comes_once
    test_known_failures_stream.py::test_positions_are_those_of_transactions_though_mariadb_states_none_inside_of_them
    test_known_failures_values.py::test_rows_that_no_map_names_are_refused
    tests/integration/source/test_network.py::test_cuts_silence_and_strangers_lose_and_double_nothing
Memory, large transactions (airbyte #26454; maxwell #1711 #1027; flink-cdc #865 #1375; go-mysql PR #913)
    test_known_failures_stream.py::test_a_transaction_of_any_size_takes_a_few_megabytes
    test_replicator.py::test_a_huge_transaction_goes_to_the_log_in_parts_and_is_seen_whole
    test_binlog.py::test_an_event_of_over_16_megabytes_comes_in_one_piece
Types, charsets, dates, signs (DBZ-7594 -5571; dbz#2172 #1504; python #218 #282 #612; data-diff #379 #701)
    test_known_failures_values.py::test_a_value_that_others_get_wrong_in_silence_is_right
    test_known_failures_values.py::test_a_type_that_others_cannot_read_is_read
    test_known_failures_values.py::test_null_invalid_and_undecodable_are_three_things
    test_golden.py::test_streamed_rows_equal_selected_ones
    test_charset.py::test_every_sequence_is_the_character_that_the_server_makes_of_it
What none of them has
    test_json_diff.py::test_recorded_changes_give_what_select_showed_next
    test_images.py::test_a_table_of_the_old_world_is_read_column_by_column
    test_binlog.py::test_each_type_of_event_is_known_to_be_harmless_or_decoded_or_stops_the_source
    test_binlog.py::test_no_flag_makes_an_event_of_unknown_type_pass

Pitfalls, in the order in which they are counted elsewhere:

1. A position that is stored before its rows, or inside of a transaction; log_pos and file names trusted
    test_replicator.py::test_a_crash_at_any_durable_step_changes_nothing
    test_binlog.py::test_positions_grow_beyond_32_bits
    test_failover.py::test_a_place_in_files_of_another_server_is_given_up
2. Checksums by a variable of the server; a mismatch that is only logged
    test_binlog.py::test_checksums_are_as_each_file_describes_them
    test_binlog.py::test_every_flipped_byte_is_refused
3. Names of today for columns of yesterday; ids of tables kept over a reconnect
    test_known_failures_stream.py::test_names_of_today_are_not_given_to_columns_of_yesterday
    test_transaction.py::test_rows_of_a_map_that_is_no_longer_valid_stop_the_source
4. One None for null, invalid and undecodable; errors=ignore; '' for labels that are not known
    test_known_failures_values.py::test_null_invalid_and_undecodable_are_three_things
    test_charset.py::test_any_bytes_are_text_that_utf8_holds_or_refused
5. Images that lack columns
    test_images.py::test_an_after_image_is_completed_from_the_image_before
    test_images.py::test_an_image_that_cannot_be_completed_is_refused_by_column
6. Flags and null bits compared as whole bytes
    test_events.py::test_a_statement_ends_by_a_bit_whatever_other_flags_say
    test_images.py::test_nulls_and_their_unused_bits_are_told_apart
7. A snapshot that is open for hours holds back purge
    test_key_range.py::test_what_is_finished_is_left_no_more_and_all_else_is
8. Chunks by the first column of a key, texts bounded by another collation, a last chunk without an end
    test_key_range.py::test_keys_of_several_columns_are_compared_column_by_column
    test_key_range.py::test_texts_are_bounded_by_the_bytes_that_the_server_keeps
    test_key_range.py::test_a_range_begins_behind_one_key_and_ends_with_another
9. Tables that are swapped by name
    test_replicator.py::test_a_swap_of_names_owes_a_snapshot_and_drops_nothing
    tests/integration/source/test_capture.py::test_tables_that_are_emptied_swapped_and_made_are_followed
10. No look at the server before the start
    test_preflight.py::test_a_setting_that_loses_rows_is_refused_with_what_to_do
    test_preflight.py::test_cascades_are_refused_where_the_log_keeps_no_trace_of_them
11. TIMESTAMP through a zone with summer time; FLOAT by its text
    test_golden.py::test_streamed_rows_equal_selected_ones
    test_render.py::test_a_float_is_shown_by_the_shortest_number_that_reads_back
    tests/prove/test_differential.py::test_rows_of_the_binlog_are_those_of_select
12. What full metadata costs is not told
    test_preflight.py::test_the_fix_for_metadata_that_is_not_full_tells_what_it_costs
13. Tests of friendly charsets and small transactions alone
    test_charset.py::test_every_byte_is_the_character_that_the_server_makes_of_it
    test_known_failures_stream.py::test_a_transaction_of_any_size_takes_a_few_megabytes
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.support.paths import ROOT

HERE = Path(__file__).parent
INDEX = re.findall(r"([\w/]+\.py)::(test_\w+)", __doc__ or "")


@cache
def names_in(name: str) -> frozenset[str]:
    [path] = [ROOT / name] if "/" in name else HERE.rglob(name)
    tree = ast.parse(path.read_text("utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize(("file", "test"), sorted(set(INDEX)), ids=lambda value: value)
def test_each_test_that_is_named_is_there(file: str, test: str) -> None:
    assert test in names_in(file)


def test_each_theme_and_each_pitfall_has_tests() -> None:
    themes = re.split(r"\n(?=[A-Z0-9])", __doc__ or "")[2:]
    themes = [theme for theme in themes if not theme.startswith(("Numbers", "Pitfalls"))]
    assert len(themes) == 11 + 13
    assert [theme.splitlines()[0] for theme in themes if "::" not in theme] == []
