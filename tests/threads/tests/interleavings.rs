//! Runs every interleaving of each scene, with one test per scene.

use threads::{handoffs, holds, inboxes, lingers, operations, processes, terms};

macro_rules! scenes {
    ($($module:ident::$scene:ident),* $(,)?) => {
        $(#[test] fn $scene() { $module::$scene(); })*
    };
}

scenes! {
    handoffs::a_hand_off_against_a_timeout,
    handoffs::a_hand_off_against_a_waiter_that_leaves,
    handoffs::a_hand_off_against_a_loss,
    handoffs::a_late_end_of_the_first_hold_spares_the_second,
    handoffs::two_threads_release_levels_of_a_hold_that_is_handed_on,
    handoffs::a_hand_off_against_a_downgrade,
    handoffs::a_hand_off_against_a_waiter_that_joins,
    holds::loss_against_release_against_check,
    holds::a_lease_is_released_once,
    holds::two_threads_release_levels,
    holds::re_entry_against_the_last_release,
    holds::an_end_by_the_clock_is_found_once,
    holds::a_loss_is_final,
    holds::a_loss_wakes_the_waiting_thread,
    holds::a_release_wakes_the_thread_that_waits_for_a_level,
    holds::a_request_to_give_up_wakes_the_listener,
    holds::a_level_is_shared_while_it_ends,
    inboxes::a_queue_is_filled_while_it_is_emptied,
    inboxes::a_queue_ends_while_its_thread_waits,
    inboxes::every_arrival_is_taken_by_a_wake_up,
    inboxes::an_arrival_against_the_end_of_its_receiver,
    lingers::a_release_against_the_end_of_keeping,
    lingers::a_take_against_the_end_of_keeping,
    lingers::a_take_against_a_possible_waiter,
    lingers::two_threads_take_a_node,
    lingers::a_take_against_a_loss,
    lingers::a_late_end_of_the_first_hold_spares_the_node,
    lingers::a_re_entry_against_a_release_that_keeps_the_node,
    operations::woken_while_it_begins,
    operations::cancelled_while_it_is_woken,
    operations::woken_twice_it_becomes_one_task,
    operations::woken_by_the_thread_that_continues_it_and_by_another,
    operations::cancelled_while_another_thread_continues_it,
    processes::all_threads_get_one_value,
    terms::an_older_proof_shortens_no_term,
    terms::a_proof_is_seen_with_its_connection,
    terms::a_proof_against_a_move,
}
