//! What a store is: every test runs for every store, and what passes them all is one.
//!
//! The tests know a store by its contract alone, and its database by a [`harness::Harness`]. To add a store, write a
//! harness for it and add one line at the end of this file.

#[path = "harness/harness.rs"]
mod harness;

#[path = "conformance/adoption.rs"]
mod adoption;
#[path = "conformance/again.rs"]
mod again;
#[path = "conformance/claim.rs"]
mod claim;
#[path = "conformance/concurrency.rs"]
mod concurrency;
#[path = "conformance/dead_letter.rs"]
mod dead_letter;
#[path = "conformance/delay.rs"]
mod delay;
#[path = "conformance/enqueue.rs"]
mod enqueue;
#[path = "conformance/expire.rs"]
mod expire;
#[path = "conformance/follow_ups.rs"]
mod follow_ups;
#[path = "conformance/heartbeat.rs"]
mod heartbeat;
#[path = "conformance/inspect.rs"]
mod inspect;
#[path = "conformance/keys.rs"]
mod keys;
#[path = "conformance/managed.rs"]
mod managed;
#[path = "conformance/mirror.rs"]
mod mirror;
#[path = "conformance/names.rs"]
mod names;
#[path = "conformance/order.rs"]
mod order;
#[path = "conformance/policies.rs"]
mod policies;
#[path = "conformance/repeat.rs"]
mod repeat;
#[path = "conformance/settle.rs"]
mod settle;
#[path = "conformance/types.rs"]
mod types;

macro_rules! instantiate {
    ($harness:ty; $($topic:ident { $($test:ident)* })*) => {
        $(
            mod $topic {
                $(
                    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                    async fn $test() {
                        if crate::harness::can_run::<$harness>() {
                            crate::$topic::$test::<$harness>().await;
                        }
                    }
                )*
            }
        )*
    };
}

/// Lists every test once; a test that is missing here is unused code, which the build reports.
macro_rules! conformance {
    ($store:ident, $harness:ty) => {
        mod $store {
            instantiate! { $harness;
                adoption {
                    rows_that_were_there_before_are_claimed
                    a_table_that_is_gone_is_no_bug_and_no_reason_to_try_again
                    a_table_that_is_no_queue_yet_is_refused_with_all_that_it_lacks
                    an_interrupted_adoption_is_taken_up_where_it_was_left
                    another_order_needs_another_index
                    apply_adds_all_and_a_second_time_nothing
                    a_table_and_columns_that_are_missing_are_named
                    a_table_without_a_key_is_refused
                    a_unique_constraint_may_be_the_key
                    rows_without_a_key_are_passed_over
                    the_soft_lock_columns_may_have_other_names
                    two_queues_with_soft_locks_of_their_own_share_a_table
                }
                again {
                    a_settlement_sent_again_answers_again_and_changes_nothing
                    a_completion_is_told_from_a_failure_and_from_a_release
                    a_repeat_is_known_after_the_item_became_ready
                    a_repeat_finds_nothing_once_somebody_else_has_claimed
                    a_repeat_finds_nothing_where_completion_removes_the_row
                    a_recurring_items_completion_sent_again_is_known
                    a_recurring_items_failure_is_not_taken_for_a_completion
                    nothing_is_known_of_a_lease_that_expired
                    nothing_is_known_of_a_lease_after_a_redrive
                    a_release_sent_again_after_a_failure_does_not_give_the_attempt_back
                }
                claim {
                    an_empty_queue_gives_no_leases
                    a_call_that_wants_nothing_gets_nothing
                    a_lease_carries_the_row_the_token_and_the_time_left
                    a_lease_lasts_as_long_as_its_own_call_asks
                    a_leased_row_is_not_leased_again
                    several_calls_get_consecutive_rows_in_turn
                    a_thousand_rows_are_leased_in_one_operation
                    rows_that_other_programs_insert_are_claimed
                    a_row_that_another_program_deletes_is_no_longer_held
                    a_claim_reads_the_row_as_other_programs_left_it
                    each_claim_raises_the_fence_by_one_and_nothing_sets_it_back
                    an_attempt_is_counted_at_claim_and_given_back_by_a_release
                    only_the_columns_asked_for_are_handed_out
                    a_queue_without_filtered_indexes_works_the_same
                }
                concurrency {
                    each_row_is_claimed_and_completed_once
                    claims_that_take_turns_get_each_row_once
                    of_many_settlements_of_one_lease_one_kind_wins
                    follow_ups_are_added_once_however_often_the_completion_is_sent
                    one_request_sent_by_many_brokers_gets_the_same_leases
                    a_claim_and_the_reaper_never_both_have_a_lease
                    producers_and_workers_together_lose_and_repeat_nothing
                    a_refused_operation_does_not_spoil_those_beside_it
                    an_operation_whose_caller_goes_away_runs_to_its_end
                }
                dead_letter {
                    a_dead_item_is_claimed_by_nobody
                    a_redriven_item_has_all_its_attempts_before_it
                    a_redrive_touches_only_the_dead_and_no_more_than_its_limit
                }
                delay {
                    an_item_enqueued_with_a_delay_is_claimed_after_it
                    a_failed_item_waits_for_its_retry
                    a_failed_item_may_be_tried_again_at_once
                    an_item_released_with_a_delay_keeps_its_attempt
                    items_become_ready_in_the_order_of_their_due_times
                    a_promoted_item_keeps_its_error_and_counts_from_now
                }
                enqueue {
                    keys_are_returned_in_the_order_given
                    the_database_numbers_the_items_and_fills_in_defaults
                    an_item_that_names_no_column_takes_the_defaults
                    a_new_item_is_ready_and_carries_its_trace
                    an_empty_list_adds_nothing
                    another_brokers_item_is_claimed
                    an_unknown_column_is_refused
                    a_soft_lock_column_is_refused
                    a_computed_column_is_refused
                    a_missing_or_null_value_is_refused_where_one_must_be
                    a_value_that_is_there_already_is_refused_where_it_must_be_unique
                    text_that_is_no_number_is_refused_for_a_number_column
                    a_column_named_twice_is_refused
                    bytes_and_fractions_are_refused_for_a_column_of_integers
                    an_item_without_its_key_is_refused
                    an_item_without_a_key_that_may_be_null_is_refused
                    a_refused_list_may_be_sent_again_without_the_bad_item
                }
                expire {
                    an_expired_items_lease_is_reported_and_the_item_is_ready
                    an_item_whose_last_attempt_expired_is_dead
                    without_a_maximum_an_item_expires_for_ever
                    a_lease_that_is_held_is_left_alone
                    an_expired_item_is_not_claimed_before_it_is_reaped
                    a_reaper_ends_no_more_than_its_limit_the_longest_due_first
                    promotions_count_towards_the_reapers_limit
                    the_reaper_tells_when_to_come_again
                    two_reapers_end_a_lease_once
                    a_reaper_that_may_do_nothing_only_looks
                }
                follow_ups {
                    follow_ups_are_added_with_the_completion
                    follow_ups_are_added_only_once
                    a_lost_lease_adds_nothing
                    a_follow_up_may_go_to_its_own_queue_be_delayed_and_carry_a_trace
                    a_follow_up_with_an_unknown_column_refuses_the_whole_list
                    a_follow_up_that_breaks_a_constraint_refuses_the_whole_list
                    a_follow_up_with_an_unknown_column_is_refused_even_when_its_lease_is_lost
                }
                heartbeat {
                    a_heartbeat_makes_the_lease_last_from_now
                    a_heartbeat_may_shorten_the_lease
                    a_lease_past_its_due_time_is_lost_before_any_reaper_comes
                    each_lease_of_a_list_has_its_own_answer_in_the_order_asked
                    a_settled_lease_is_not_held
                    a_lease_that_was_never_given_is_not_held
                    another_brokers_heartbeat_counts
                    a_heartbeat_does_not_make_the_lease_look_younger
                }
                inspect {
                    an_empty_queue_has_zeros_and_no_ages
                    stats_count_every_state
                    exact_stats_are_the_same_of_few_items
                    stats_tell_the_age_of_the_oldest_ready_item_and_of_the_oldest_lease
                    a_list_has_the_longest_in_the_state_first_and_no_more_than_asked
                    a_listed_lease_tells_who_holds_it_and_how_long
                    an_expired_lease_that_is_not_reaped_is_due_in_no_time
                    the_secret_is_the_same_for_every_broker_on_the_database
                    a_probe_of_a_working_store_is_answered
                }
                keys {
                    a_key_of_text_may_be_any_text
                    a_key_of_numbers_may_be_any_number
                    a_key_may_be_bytes
                    a_key_may_have_two_columns
                    a_key_may_have_three_columns
                    items_are_claimed_in_the_order_of_all_key_columns
                    a_lease_with_too_few_or_too_many_key_values_is_not_held
                    rows_of_composite_keys_are_deleted_and_archived_one_by_one
                    a_completed_key_may_come_again_where_its_row_is_deleted
                }
                managed {
                    a_managed_column_of_no_type_is_a_misconfiguration
                    a_managed_table_is_made_when_the_store_is_opened
                    a_managed_table_is_made_again_beside_its_archive
                    a_managed_table_may_have_a_key_of_several_columns
                    a_managed_tables_rows_tell_since_when_they_are_ready
                }
                mirror {
                    each_transition_sets_the_columns_of_the_state_entered
                    an_item_whose_attempts_are_spent_by_expiry_looks_dead
                    a_recurring_item_looks_delayed
                    now_is_the_moment_of_the_change
                    a_claim_hands_out_the_columns_as_it_set_them
                    a_new_item_has_the_columns_of_its_state
                    a_column_of_one_state_is_left_alone_by_the_others
                    a_column_of_the_delayed_state_alone_is_set_for_a_new_item
                    null_is_a_value_to_be_set
                    adoption_finds_the_rows_that_are_done_or_given_up_already
                    adoption_knows_done_by_several_columns_and_by_null
                    adoption_passes_over_rows_without_a_key
                    rows_done_by_the_old_program_after_adoption_are_found_by_the_next_apply
                }
                names {
                    any_name_will_do
                    a_broken_constraint_names_its_column_whatever_that_is_called
                    a_queue_may_be_called_otherwise_than_its_table
                }
                order {
                    without_a_wish_the_key_orders
                    the_key_may_descend
                    the_key_breaks_a_tie
                    several_columns_order_each_in_its_direction
                    without_order_every_item_is_claimed_once
                    an_order_without_filtered_indexes_is_the_same
                    by_state_time_an_item_given_back_goes_to_the_end
                    a_null_in_an_order_column_is_claimed_too
                    a_change_of_the_order_column_changes_the_place
                }
                policies {
                    a_kept_row_stays_in_the_table
                    a_deleted_row_is_gone_and_others_are_not
                    an_archived_row_moves_with_its_own_columns
                    an_archive_made_by_hand_gets_the_columns_that_it_has
                    a_computed_column_does_not_hinder_the_archive
                    a_failed_item_is_not_archived
                    an_archive_that_lacks_a_column_is_refused
                    a_recurring_item_is_ready_again_with_new_attempts
                }
                repeat {
                    the_same_request_gets_the_same_leases_and_no_more
                    another_broker_answers_the_same_request_with_the_same_leases
                    a_request_that_got_less_than_it_asked_for_gets_no_more_later
                    a_request_that_got_nothing_may_be_asked_again
                    leases_that_were_settled_are_not_handed_out_again
                    leases_that_expired_are_not_handed_out_again
                    a_heartbeat_keeps_a_requests_lease
                    the_same_request_may_win_the_same_item_twice
                    two_requests_share_no_leases
                    repeats_and_new_calls_mix_in_one_operation
                    a_repeated_request_keeps_the_queues_order
                }
                settle {
                    each_ending_leads_to_its_state
                    a_completed_item_is_never_claimed_again
                    a_released_item_is_ready_at_once
                    a_failure_keeps_its_error_and_its_worker
                    a_completion_forgets_an_earlier_error
                    a_lease_past_its_due_time_can_not_be_settled_and_nothing_changes
                    a_lease_that_was_never_given_can_not_be_settled
                    a_lost_lease_in_a_list_does_not_spoil_the_others
                    any_broker_may_settle_a_lease
                    the_same_lease_twice_in_one_list_is_settled_once
                    an_empty_list_settles_nothing
                }
                types {
                    integers_pass_unchanged
                    text_passes_unchanged
                    bytes_pass_unchanged
                    truth_values_pass_unchanged
                    floating_point_numbers_pass_unchanged
                    decimals_pass_as_the_store_keeps_them
                    moments_pass_as_the_store_keeps_them
                    errors_and_worker_names_are_kept_as_they_are
                }
            }
        }
    };
}

conformance!(sqlite, crate::harness::sqlite::SqliteHarness);
conformance!(mssql, crate::harness::mssql::MssqlHarness);
