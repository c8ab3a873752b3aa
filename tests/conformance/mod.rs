//! The conformance suite: tests of the contract of a store. Every test runs on every store.
//!
//! The tests use a store only through its trait, and its database only through a [`crate::harness::Harness`]. To add a store,
//! implement the harness and add one line at the end of this file.

mod adoption;
pub(crate) mod cancel;
mod checkpoints;
mod claim;
mod claim_bytes;
mod concurrency;
mod dead_letter;
mod delay;
mod enqueue;
mod enqueue_once;
mod epoch;
mod example_item;
mod expire;
mod follow_ups;
mod foreign_keys;
mod group_bursts;
mod group_phantoms;
mod group_rates;
pub(crate) mod groups;
mod heartbeat;
mod inspect;
mod instances;
mod isolation;
mod keys;
pub(crate) mod listed_groups;
mod managed;
mod mirror;
mod named_groups;
mod names;
mod operation_batches;
mod operations;
mod order;
mod pause;
mod pause_race;
pub(crate) mod paused_groups;
mod policies;
pub(crate) mod purge;
mod refused_settlement;
mod release_claims;
mod removal;
mod repeated_settlement;
mod retried_claim;
mod runs;
pub(crate) mod search;
mod search_filters;
mod secrets;
mod settle;
mod suspects;
mod trace;
mod types;
mod why;
mod written_columns;

/// Generates one `#[test]` per listed function, run with the given harness.
macro_rules! instantiate {
    ($harness:ty; $($topic:ident { $($test:ident)* })*) => {
        $(
            mod $topic {
                $(
                    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                    async fn $test() {
                        if crate::harness::can_run::<$harness>() {
                            crate::conformance::$topic::$test::<$harness>().await;
                        }
                    }
                )*
            }
        )*
    };
}

/// Lists every test once. A test that is missing here is unused code, which the build reports.
macro_rules! conformance {
    ($store:ident, $harness:ty) => {
        mod $store {
            instantiate! { $harness;
                adoption {
                    existing_rows_are_claimed
                    dropped_table_is_a_misconfiguration
                    unadopted_table_is_refused_naming_each_missing_part
                    soft_lock_column_that_is_never_null_is_refused
                    interrupted_adoption_continues
                    changed_order_needs_a_new_index
                    second_apply_changes_nothing
                    missing_table_and_columns_are_named
                    table_without_a_key_is_refused
                    unique_constraint_serves_as_key
                    rows_with_a_null_key_are_skipped
                    rows_with_a_null_key_are_not_counted
                    soft_lock_columns_can_be_renamed
                    two_queues_with_separate_soft_locks_share_a_table
                }
                epoch {
                    new_epoch_raises_the_fence_of_every_item
                    new_epoch_ends_leases_and_gives_attempts_back
                    table_without_later_columns_loses_its_leases
                    new_epoch_ends_any_number_of_leases
                    lease_of_a_later_epoch_stays
                    new_epoch_cancels_running_operations
                    new_epoch_names_a_queue_left_out_of_an_old_state
                }
                isolation {
                    row_with_a_full_counter_becomes_dead
                    negative_number_of_attempts_counts_as_none
                    refused_worker_id_leaves_other_claims
                    refused_items_of_a_list_are_all_named
                    largest_key_does_not_stop_a_counting_table
                    item_over_the_queues_limit_is_refused
                    item_with_a_long_key_over_a_response_is_refused
                }
                secrets {
                    new_secret_waits_until_brokers_know_it
                    rotation_without_delay_ends_old_ids
                }
                refused_settlement {
                    archive_key_refuses_its_own_completion
                    refused_follow_ups_leave_the_others_of_a_list
                    every_settlement_of_a_list_can_be_refused
                    refused_completion_can_be_failed_in_the_same_list
                    problem_has_no_value_of_a_column
                }
                written_columns {
                    completion_writes_columns_of_its_row
                    settlements_of_a_list_write_different_columns
                    lost_or_repeated_settlement_writes_nothing
                    column_that_is_not_writable_is_refused
                    value_that_does_not_fit_is_refused
                    constraint_names_the_written_column
                    refused_follow_up_leaves_the_columns_unwritten
                    columns_that_cannot_be_written_fail_the_check
                }
                repeated_settlement {
                    repeated_settlement_answers_again_and_changes_nothing
                    completion_differs_from_failure_and_release
                    repeat_is_recognised_after_the_item_became_ready
                    repeat_after_another_claim_is_lost
                    completion_without_a_row_is_gone
                    completion_of_a_later_lease_makes_it_gone
                    repeated_completion_of_a_recurring_item_is_recognised
                    failure_of_a_recurring_item_is_no_completion
                    expired_lease_cannot_be_repeated
                    redriven_lease_cannot_be_repeated
                    release_after_failure_does_not_return_the_attempt
                }
                cancel {
                    cancelled_item_is_ready_and_its_lease_lost
                    heartbeat_returns_the_reason_until_the_next_claim
                    expired_lease_has_no_cancel_reason
                    cancelled_items_can_be_delayed_or_dead
                    item_without_attempts_left_is_dead
                    items_without_leases_are_not_changed
                    only_the_lease_with_the_fencing_token_is_cancelled
                    settled_lease_does_not_count_as_cancelled
                    rows_are_found_by_the_text_of_their_keys
                    malformed_keys_are_refused
                    cancellation_sets_the_mirror_of_the_new_state
                }
                checkpoints {
                    next_lease_has_the_checkpoint
                    failure_and_release_store_a_checkpoint
                    lost_lease_stores_no_checkpoint
                    absent_checkpoint_keeps_and_empty_one_removes
                    completion_removes_the_checkpoint
                    one_list_stores_different_checkpoints
                    last_checkpoint_of_a_repeated_lease_is_stored
                    expiry_and_cancellation_keep_the_checkpoint
                    redrive_keeps_or_clears_the_checkpoint
                    retried_claim_has_the_present_checkpoint
                    checkpoint_and_columns_are_written_together
                    queue_without_checkpoints_needs_no_column
                    checkpoints_are_adopted_later
                    managed_queue_has_checkpoints
                    checkpoint_column_can_be_renamed
                }
                claim {
                    empty_queue_gives_no_leases
                    claim_of_zero_items_gets_none
                    lease_carries_row_token_and_time_left
                    each_call_sets_its_own_lease_duration
                    lease_tells_when_its_item_became_ready
                    repeated_claim_does_not_know_the_ready_time
                    leased_row_is_not_leased_again
                    calls_of_a_group_get_consecutive_rows
                    thousand_rows_are_leased_in_one_operation
                    rows_that_other_programs_insert_are_claimed
                    lease_of_a_deleted_row_is_lost
                    claim_reads_the_current_row
                    fence_grows_by_one_per_claim_and_never_falls
                    claim_counts_an_attempt_and_release_returns_it
                    only_configured_columns_are_returned
                    queue_without_filtered_indexes_works_the_same
                }
                claim_bytes {
                    claim_leases_only_items_that_fit
                    calls_of_a_group_have_their_own_bytes
                    item_over_the_bytes_of_a_call_is_passed_over
                    ten_items_that_are_too_large_are_named
                    group_is_bounded_as_a_whole
                    item_over_the_queues_limit_becomes_dead
                    long_texts_count_as_in_a_response
                    bounded_claims_keep_a_descending_order
                    bounded_claim_of_any_order_leases_each_item_once
                    repeated_bounded_claim_gets_the_same_leases
                    retried_leases_of_many_calls_are_bounded
                }
                concurrency {
                    each_row_is_claimed_and_completed_once
                    claims_under_app_lock_get_each_row_once
                    one_kind_wins_among_concurrent_settlements
                    follow_ups_of_concurrent_repeats_are_added_once
                    request_sent_by_many_brokers_gets_the_same_leases
                    claim_and_reaper_never_share_a_lease
                    simultaneous_reapers_report_each_lease_once
                    producers_and_workers_lose_and_repeat_nothing
                    refused_operation_leaves_concurrent_ones_intact
                    operation_without_a_caller_runs_to_its_end
                }
                dead_letter {
                    dead_item_is_not_claimed
                    redriven_item_has_all_attempts_again
                    redrive_changes_only_dead_items_up_to_its_limit
                }
                delay {
                    delayed_item_is_claimed_after_its_delay
                    failed_item_waits_for_its_retry
                    failed_item_without_delay_is_ready_immediately
                    item_released_with_a_delay_keeps_its_attempt
                    delayed_items_become_ready_by_due_time
                    promoted_item_keeps_its_error_and_gets_a_new_state_time
                }
                enqueue {
                    keys_are_returned_in_request_order
                    database_generates_keys_and_defaults
                    items_keep_their_order_whatever_columns_they_name
                    item_without_columns_takes_the_defaults
                    new_item_is_ready_and_carries_its_trace
                    empty_list_adds_nothing
                    item_of_another_broker_is_claimed
                    unknown_column_is_refused
                    soft_lock_column_is_refused
                    computed_column_is_refused
                    missing_required_value_is_refused
                    duplicate_of_a_unique_value_is_refused
                    non_numeric_text_is_refused_for_a_number_column
                    column_named_twice_is_refused
                    bytes_and_fractions_are_refused_for_an_integer_column
                    item_without_its_key_is_refused
                    item_with_a_null_key_is_refused
                    refused_list_succeeds_without_the_bad_item
                }
                example_item {
                    example_sets_required_columns_of_all_kinds
                    example_sets_one_of_several_optional_columns
                    required_column_without_a_known_value_has_no_example
                    example_with_a_unique_column_is_added_each_time
                }
                expire {
                    expired_lease_is_reported_and_its_item_ready
                    item_is_dead_after_its_last_attempt_expired
                    lease_that_a_clock_step_ends_is_no_attempt
                    reap_of_an_idle_queue_returns_the_time
                    time_that_a_reap_has_waited_is_no_clock_step
                    item_without_max_attempts_never_dies
                    held_lease_is_not_reaped
                    expired_item_is_not_claimed_before_it_is_reaped
                    reaper_ends_the_longest_due_up_to_its_limit
                    promotions_count_towards_the_reaper_limit
                    reaper_returns_the_next_due_time
                    two_reapers_end_a_lease_once
                    reaper_with_limit_zero_changes_nothing
                    refused_rows_do_not_stop_the_reaper
                }
                follow_ups {
                    follow_ups_are_added_with_the_completion
                    follow_ups_keep_their_order_whatever_columns_they_name
                    follow_up_that_refers_to_its_removed_row_is_refused
                    follow_up_can_refer_to_an_earlier_one
                    follow_up_can_have_the_key_of_its_removed_row
                    repeated_completion_adds_follow_ups_once
                    lost_lease_adds_no_follow_ups
                    follow_up_to_the_same_queue_with_delay_and_trace
                    unknown_column_refuses_its_own_completion
                    constraint_refuses_its_own_completion
                    unknown_column_is_refused_even_for_a_lost_lease
                }
                listed_groups {
                    states_of_strict_groups_are_listed
                    states_of_parallel_groups_are_listed
                    pages_list_each_group_once
                    listed_name_of_every_kind_names_its_group
                    queue_without_groups_lists_none
                    reader_without_tables_of_brokers_lists_groups
                }
                group_phantoms {
                    group_goes_on_after_a_leased_row_was_deleted
                    group_goes_on_after_a_leased_row_was_completed_by_sql
                    group_goes_on_after_a_leased_row_was_made_dead_by_sql
                    group_begins_again_after_a_leased_row_was_requeued_by_sql
                    group_goes_on_after_a_leased_row_left_it
                    group_goes_on_after_its_worker_was_lost
                }
                group_rates {
                    each_group_has_its_own_rate
                    strict_groups_obey_their_rate
                    calls_of_one_operation_share_the_rate_of_a_group
                    claim_of_named_groups_obeys_their_rate
                    suspect_counts_for_the_rate_of_its_group
                    suspect_waits_for_the_rate_of_its_group
                    operators_change_the_rate_of_groups
                    groups_of_every_kind_have_a_rate
                }
                group_bursts {
                    group_exceeds_its_limit_if_no_other_can_give
                    items_within_the_limit_come_before_a_burst
                    groups_take_turns_in_a_burst
                    suspect_does_not_make_another_group_burst
                    burst_obeys_the_rate_of_the_group
                    paused_group_has_no_burst
                    overdue_suspect_is_leased_in_a_burst
                    claim_of_named_groups_has_no_burst
                }
                runs {
                    claim_gets_runs_of_consecutive_items
                    claim_that_asks_for_no_runs_gets_single_items
                    run_has_at_most_the_items_that_the_call_wants
                    calls_of_one_operation_share_no_run
                    items_of_a_run_are_completed_in_their_order
                    one_call_completes_a_run_in_its_order
                    several_runs_are_settled_together
                    failure_releases_the_rest_of_its_run
                    worker_can_fail_an_item_and_release_the_rest
                    released_item_comes_again_with_the_rest_of_its_run
                    worker_can_release_the_end_of_a_run
                    releases_of_a_run_count_in_any_order
                    expired_run_counts_one_attempt
                    run_that_expires_in_parts_ends_as_one
                    reaper_with_a_limit_ends_whole_runs
                    cancellation_releases_the_rest_of_its_run
                    group_with_a_delayed_item_gives_single_items
                    rate_of_the_group_bounds_a_run
                    limit_of_the_queue_bounds_a_run
                    order_of_the_queue_decides_about_a_run
                    repeated_claim_returns_its_runs
                    repeated_claim_of_single_items_returns_no_runs
                    named_groups_give_runs
                    run_stops_before_an_item_that_does_not_fit
                    run_works_where_completions_remove_rows
                    unfiltered_indexes_serve_runs
                }
                named_groups {
                    claim_of_named_groups_gets_only_their_items
                    group_that_is_named_twice_gives_its_items_once
                    named_groups_without_order_give_their_items_evenly
                    claim_of_named_groups_takes_no_turn
                    claims_with_and_without_groups_share_an_operation
                    suspect_goes_only_to_a_claim_of_its_group
                    groups_of_every_kind_can_be_named
                }
                paused_groups {
                    name_that_is_no_number_is_no_group_of_numbers
                    paused_group_gives_no_lease_and_others_go_on
                    parallel_group_can_be_paused
                    pause_of_a_group_ends_at_its_time
                    claim_forgets_pauses_that_have_ended
                    pause_holds_back_what_the_database_calls_equal
                    group_of_every_kind_can_be_paused
                    suspect_of_a_paused_group_is_not_leased
                    other_groups_by_schema_apply_end_the_pauses
                    too_many_paused_groups_are_refused
                    claim_after_the_answer_leases_nothing_of_the_group
                }
                groups {
                    strict_group_has_one_lease_at_a_time
                    empty_queue_is_not_held_back
                    groups_take_turns_across_brokers
                    calls_of_a_group_commit_get_different_groups
                    call_that_repeats_another_costs_no_turn
                    delayed_item_holds_back_only_those_behind
                    dead_item_lets_its_group_go_on_or_halts_it
                    row_inserted_ahead_waits_for_the_lease
                    expired_item_is_the_head_of_its_group_again
                    suspect_behind_a_delayed_item_stops_nobody
                    suspect_of_a_full_group_is_told_as_busy
                    suspects_at_the_head_hide_no_item_of_an_unordered_group
                    strict_groups_behind_suspects_leave_the_turn_to_others
                    call_behind_one_that_got_items_learns_of_busy_groups
                    order_of_a_group_is_the_order_of_the_queue
                    rows_without_a_group_have_one_turn_per_round
                    parallel_groups_share_a_claim_evenly
                    parallel_group_is_held_back_at_its_limit
                    many_busy_groups_are_walked_in_parts
                    queue_has_at_most_its_number_of_leases
                    queue_gives_items_out_at_its_rate
                    row_of_the_queue_decides_about_limits
                    operators_change_limits_of_a_running_queue
                    broker_with_another_policy_is_refused
                    broker_without_groups_is_refused
                    removal_drops_the_indexes_of_groups
                    every_kind_of_column_can_name_groups
                    column_that_cannot_name_groups_is_refused
                    nullable_group_column_is_warned_of
                    groups_work_without_filtered_indexes
                    queue_without_an_order_can_have_parallel_groups
                    item_that_does_not_fit_keeps_its_place
                    only_items_of_its_group_come_before_an_item
                    new_items_of_clients_join_their_groups
                }
                foreign_keys {
                    keys_that_refuse_or_change_removals_are_warned_of
                    keys_that_refuse_retention_are_warned_of
                    keys_do_not_matter_where_rows_are_kept
                }
                heartbeat {
                    heartbeat_extends_the_lease_from_now
                    heartbeat_can_shorten_the_lease
                    lease_past_its_due_time_is_lost_before_it_is_reaped
                    each_lease_has_its_own_result_in_request_order
                    lost_lease_has_the_state_of_its_item
                    unknown_lease_is_lost
                    heartbeat_through_another_broker_counts
                    heartbeat_keeps_the_state_time
                }
                inspect {
                    empty_queue_has_zeros_and_no_ages
                    stats_count_every_state
                    exact_stats_equal_stats_for_few_items
                    row_with_a_state_that_is_none_stops_no_other_row
                    stats_contain_age_of_oldest_ready_item_and_lease
                    starving_item_is_the_oldest_ready_one
                    list_starts_with_the_oldest_and_keeps_its_limit
                    listed_lease_shows_holder_and_time_left
                    unreaped_expired_lease_is_due_in_zero
                    pages_list_every_item_in_the_order_of_the_key
                    brokers_of_one_database_share_the_secret
                    probe_of_a_working_store_succeeds
                }
                why {
                    each_state_is_a_cause
                    lease_tells_its_worker_and_its_end
                    delay_that_is_over_waits_for_the_reaper
                    items_ahead_follow_the_order_of_claims
                    items_without_an_order_have_a_place
                    more_than_1000_items_ahead_are_at_least_1000
                    facts_are_found_by_a_composite_key
                    rows_with_a_null_key_explain_a_missing_row
                    value_that_is_no_state_is_a_cause
                    pause_of_the_queue_comes_before_other_causes
                    item_that_holds_its_group_back_is_named
                    full_group_is_named
                    limit_is_named_only_while_it_is_reached
                    brokers_count_for_15_seconds
                    lock_of_a_foreign_transaction_is_found
                    reader_needs_no_tables_of_the_broker
                    reader_refuses_a_table_that_is_not_adopted
                }
                keys {
                    text_key_can_be_any_text
                    number_key_can_be_any_number
                    key_can_be_bytes
                    key_can_have_two_columns
                    key_can_have_three_columns
                    items_are_claimed_by_all_key_columns_in_order
                    lease_with_a_wrong_number_of_key_values_is_lost
                    rows_with_composite_keys_are_deleted_and_archived
                    key_can_be_reused_after_its_row_was_deleted
                }
                managed {
                    managed_column_of_unknown_type_is_a_misconfiguration
                    managed_table_is_created_when_the_store_opens
                    dropped_managed_table_is_created_beside_its_archive
                    managed_table_can_have_a_composite_key
                    managed_table_rows_have_their_ready_time
                    restart_leaves_items_of_a_managed_table_ready
                    order_and_groups_of_a_managed_table_can_change
                    running_broker_keeps_the_groups_of_its_managed_table
                    declared_column_that_a_managed_table_lacks_is_named
                }
                mirror {
                    each_transition_sets_the_mirror_of_the_new_state
                    item_dead_by_expiry_gets_the_dead_mirror
                    cancelled_item_gets_the_mirror_of_its_new_state
                    recurring_item_gets_the_delayed_mirror
                    now_is_the_time_of_the_change
                    claim_returns_the_mirror_columns_that_it_set
                    new_item_has_the_mirror_of_its_state
                    column_of_one_state_is_unchanged_by_other_states
                    column_of_the_delayed_state_alone_is_set_for_a_new_item
                    null_can_be_a_mirror_value
                    adoption_marks_completed_and_dead_rows
                    adoption_matches_several_columns_and_null
                    adoption_leaves_rows_that_show_ready_unclaimed
                    adoption_skips_rows_with_a_null_key
                    next_apply_marks_rows_completed_since_adoption
                }
                names {
                    any_identifier_is_accepted
                    constraint_error_names_its_column
                    queue_name_can_differ_from_its_table
                }
                order {
                    default_order_is_the_key
                    key_can_descend
                    key_breaks_a_tie
                    several_columns_can_order_in_different_directions
                    order_none_claims_every_item_once
                    order_without_filtered_indexes_is_the_same
                    released_item_is_last_when_ordered_by_state_time
                    row_with_a_null_order_column_is_claimed
                    changed_order_column_changes_the_position
                }
                policies {
                    kept_row_stays_in_the_table
                    only_the_completed_row_is_deleted
                    archived_row_keeps_its_data_columns
                    archive_made_by_hand_gets_the_columns_that_it_has
                    computed_column_does_not_prevent_archiving
                    failed_item_is_not_archived
                    archive_without_a_data_column_is_refused
                    archive_that_needs_another_value_is_refused
                    recurring_item_is_ready_again_with_all_attempts
                }
                release_claims {
                    all_leases_of_a_claim_are_released
                    claims_are_released_once
                    leases_of_other_claims_stay
                    settled_and_expired_leases_stay
                    lease_released_by_its_claim_is_lost
                    released_claim_sets_the_ready_mirror
                    more_than_1000_leases_are_released
                }
                enqueue_once {
                    repeated_request_adds_nothing
                    other_items_under_one_id_are_refused
                    same_request_at_one_moment_adds_once
                    rejected_request_is_not_remembered
                    request_is_remembered_without_its_rows
                    request_is_forgotten_after_its_time
                    queues_remember_their_own_requests
                    keys_of_every_kind_are_remembered
                    long_list_keeps_its_order
                }
                pause {
                    each_mode_stops_its_own_parts
                    refused_items_tell_the_reason_and_add_nothing
                    leases_go_on_while_the_queue_is_paused
                    retried_requests_get_their_results_while_paused
                    pause_ends_at_its_time
                    pause_is_replaced_and_read_by_everybody
                    reader_without_tables_of_brokers_sees_no_pause
                    claim_after_the_answer_gets_no_lease
                    two_first_pauses_at_one_moment_both_succeed
                }
                search {
                    dead_items_are_paged_over_equal_times
                    dead_items_with_unknown_times_are_paged
                    leased_and_delayed_items_come_by_due_time
                    items_without_due_times_are_paged
                    ready_and_completed_items_come_by_key
                    search_without_filtered_indexes_finds_the_same
                    search_looks_at_a_bounded_number_of_rows
                    search_pages_over_keys_of_several_columns
                    rows_with_a_null_key_are_not_found
                    keys_are_found_in_their_order
                    record_of_an_item_has_its_columns
                    row_with_a_state_that_is_none_is_read
                    locked_rows_are_found
                }
                search_filters {
                    owner_and_error_are_compared_exactly
                    times_and_attempts_bound_a_search
                    columns_are_compared_as_values
                    column_that_is_not_filterable_is_refused
                }
                operations {
                    operation_is_stored_once
                    queue_runs_one_operation_of_a_kind
                    one_of_many_starts_at_one_moment_wins
                    operations_are_listed_in_pages
                    one_broker_at_a_time_takes_an_operation
                    operation_held_before_the_clock_was_put_back_is_free
                    operation_that_ended_is_forgotten_after_ten_days
                    reader_without_tables_sees_no_operation
                }
                operation_batches {
                    batch_changes_items_and_counts_once
                    first_error_of_an_operation_stays
                    cancelled_operation_changes_nothing
                    redriven_items_can_be_delayed_and_keep_attempts
                    item_that_changed_since_it_was_found_stays
                    redrive_never_meets_items_that_died_later
                    items_from_before_the_clock_was_put_back_are_changed
                    cancelled_leases_are_reported
                    purged_items_are_gone
                    refused_batch_changes_and_counts_nothing
                    batch_sent_by_many_is_applied_once
                }
                instances {
                    other_processes_are_listed_as_they_announced_themselves
                    silent_process_is_left_out_and_later_forgotten
                    process_seen_in_the_future_does_not_run
                    processes_that_announce_together_find_each_other
                    activity_of_a_process_is_the_last_one_announced
                    process_is_told_to_drain
                }
                purge {
                    only_old_items_of_the_given_state_are_deleted
                    count_without_deletion_changes_nothing
                    small_steps_visit_every_row_once
                    purged_lease_is_gone_when_it_is_settled_again
                    index_of_completed_items_finds_the_old_ones
                    index_of_completed_items_goes_with_the_columns
                    walk_follows_keys_of_every_kind
                    old_archived_rows_are_deleted_up_to_the_limit
                    archived_rows_are_deleted_up_to_the_moment
                    archive_without_its_index_is_refused
                    one_broker_at_a_time_has_the_turn
                    clock_that_is_ahead_makes_no_item_old
                    turn_from_before_the_clock_was_put_back_is_free
                    item_redriven_during_the_walk_stays
                }
                removal {
                    own_columns_of_our_names_are_refused
                    renamed_soft_lock_columns_are_dropped_again
                    confirmed_own_columns_are_used_and_kept
                    own_columns_of_wrong_types_are_refused
                    own_states_that_are_no_states_are_refused
                    own_index_of_our_name_is_not_replaced
                    fence_counts_on_after_removal
                    finished_rows_are_marked_after_removal
                    finished_rows_are_marked_if_only_their_states_are_lost
                    held_leases_and_live_brokers_are_uses
                    interrupted_removal_continues
                    replaced_table_keeps_its_own_columns
                    removal_goes_on_without_a_checkpoint_column
                    random_tables_are_given_back_as_they_were
                }
                retried_claim {
                    same_request_gets_the_same_leases_and_no_more
                    repeated_leases_are_told_from_new_ones
                    another_broker_returns_the_same_leases
                    retry_of_a_short_claim_gets_no_more_items
                    retry_of_an_empty_claim_can_get_items
                    settled_leases_are_not_returned_again
                    expired_leases_are_not_returned_again
                    extended_lease_is_returned_to_its_request
                    request_can_claim_an_item_again_after_its_release
                    two_requests_share_no_leases
                    one_operation_serves_retried_and_new_claims
                    retried_request_keeps_the_order_of_the_queue
                }
                settle {
                    each_settlement_leads_to_its_state
                    settlement_returns_the_worker_if_it_is_asked
                    completed_item_is_never_claimed_again
                    released_item_is_ready_immediately
                    failure_stores_its_error_and_worker
                    completion_clears_an_earlier_error
                    settlement_past_the_due_time_changes_nothing
                    unknown_lease_cannot_be_settled
                    lost_lease_in_a_list_leaves_the_others_intact
                    any_broker_can_settle_a_lease
                    lease_named_twice_is_settled_once
                    empty_list_settles_nothing
                }
                suspects {
                    suspect_goes_alone_to_a_worker_without_leases
                    suspects_are_found_by_keys_of_several_columns
                    worker_without_leases_gets_a_suspect_first
                    worker_with_leases_gets_items_that_are_not_suspects
                    overdue_suspect_lets_busy_workers_wait
                    calls_of_one_worker_get_one_suspect
                    settled_suspect_is_an_item_like_others
                    cancelled_suspect_is_an_item_like_others
                    redriven_item_that_keeps_its_attempts_is_an_item_like_others
                    suspect_that_expires_again_is_a_suspect_again
                    retried_claim_of_a_suspect_gets_its_lease
                    large_items_of_suspects_are_leased_alone
                    suspect_that_is_too_large_for_a_call_waits_for_another
                    why_names_a_suspect
                    list_of_suspects_is_empty_when_they_are_settled
                }
                trace {
                    reaper_reports_the_whole_lease
                    cancellation_reports_the_whole_lease
                    release_of_a_claim_reports_its_leases
                    settlement_tells_when_leases_ended
                    all_leases_of_an_item_have_the_producers_trace
                    each_run_of_a_recurring_item_has_its_own_trace
                }
                types {
                    integers_are_unchanged
                    text_is_unchanged
                    bytes_are_unchanged
                    booleans_are_unchanged
                    floats_are_unchanged
                    decimals_have_the_precision_of_the_store
                    times_have_the_precision_of_the_store
                    text_has_the_kind_of_its_column
                    text_with_an_offset_is_stored_as_its_moment
                    text_that_is_no_time_is_refused
                    value_of_another_kind_is_refused
                    errors_and_worker_names_are_unchanged
                }
            }
        }
    };
}

conformance!(sqlite, crate::harness::sqlite::SqliteHarness);
conformance!(mssql, crate::harness::mssql::MssqlHarness);
