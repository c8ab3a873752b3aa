//! Attacks on a broker process: hostile bytes, greedy callers, and rows that other programs have damaged.
//!
//! Each test has its own broker process. A bystander, an honest worker on its own connection, sends a heartbeat every
//! 50 ms while the attack runs. None of its calls may fail. A control, the same worker on a broker that nothing attacks, shows
//! how busy the machine is: the bystander may not be much slower. Each test prints one line with the bytes sent, the growth of
//! the broker's memory, and the latencies of both.

mod support;

#[path = "attack/arena.rs"]
mod arena;
#[path = "attack/bystander.rs"]
mod bystander;
#[path = "attack/goaway.rs"]
mod goaway;
#[path = "attack/memory.rs"]
mod memory;

#[path = "attack/certificate_chains.rs"]
mod certificate_chains;
#[path = "attack/deaf_clients.rs"]
mod deaf_clients;
#[path = "attack/floods.rs"]
mod floods;
#[path = "attack/greedy_requests.rs"]
mod greedy_requests;
#[path = "attack/half_requests.rs"]
mod half_requests;
#[path = "attack/header_lists.rs"]
mod header_lists;
#[path = "attack/odd_calls.rs"]
mod odd_calls;
#[path = "attack/odd_connections.rs"]
mod odd_connections;
#[path = "attack/odd_frames.rs"]
mod odd_frames;
#[path = "attack/protocol_errors.rs"]
mod protocol_errors;
#[path = "attack/resets.rs"]
mod resets;
#[path = "attack/unread_answers.rs"]
mod unread_answers;
#[path = "attack/waiting_claims.rs"]
mod waiting_claims;
