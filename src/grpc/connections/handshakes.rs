//! The order and the rate of TLS handshakes.
//!
//! A handshake takes much more processor time than a call, so few start per second. A limit of the handshakes at the same time
//! would not do: clients that stop in the middle of theirs would keep all others out. Addresses take turns, and those from which
//! a client has logged in recently get every second handshake, if they want it.

use std::num::NonZeroU32;

use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use lease_broker_model::call_source::SourceNumber;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

use crate::broker::{Account, FairQueue, InTurn};

/// The handshakes that wait for their turn.
pub(super) struct Handshakes {
    rate: DefaultDirectRateLimiter,
    waiting: Mutex<Waiting>,
    arrived: Notify,
}

#[derive(Default)]
struct Waiting {
    /// Those of strangers, and those of known addresses.
    queues: [FairQueue<Handshake>; 2],
    /// Whether the next turn is that of a stranger.
    is_strangers_turn: bool,
}

struct Handshake {
    address: SourceNumber,
    turn: oneshot::Sender<()>,
}

impl InTurn for Handshake {
    fn source(&self) -> SourceNumber {
        self.address
    }

    fn items(&self) -> usize {
        1
    }
}

impl Waiting {
    fn pop(&mut self) -> Option<Handshake> {
        let known = !self.is_strangers_turn;
        for is_known in [known, !known] {
            if let Some((_, next)) = self.queues[usize::from(is_known)].pop() {
                self.is_strangers_turn = is_known;
                return Some(next);
            }
        }
        None
    }
}

impl Handshakes {
    pub(super) fn new(per_second: NonZeroU32) -> Self {
        Self {
            rate: RateLimiter::direct(Quota::per_second(per_second)),
            waiting: Mutex::default(),
            arrived: Notify::new(),
        }
    }

    /// Waits until the handshake of a connection may begin.
    pub(super) async fn turn(&self, account: &Account) {
        let address = account.address_source().number();
        let is_known = account.has_recent_login();
        let (turn, begins) = oneshot::channel();
        self.push(Handshake { address, turn }, is_known);
        // It fails only if the server stops.
        let _ = begins.await;
    }

    fn push(&self, handshake: Handshake, is_known: bool) {
        self.waiting.lock().queues[usize::from(is_known)].push(handshake);
        self.arrived.notify_one();
    }

    /// Lets handshakes begin, until `stop` is cancelled.
    pub(super) async fn run(&self, stop: CancellationToken) {
        let run = async {
            loop {
                let next = self.waiting.lock().pop();
                match next {
                    None => self.arrived.notified().await,
                    // The client has not gone away.
                    Some(next) if !next.turn.is_closed() => {
                        self.wait_for_rate().await;
                        let _ = next.turn.send(());
                    }
                    Some(_) => {}
                }
            }
        };
        stop.run_until_cancelled(run).await;
    }

    async fn wait_for_rate(&self) {
        while let Err(full) = self.rate.check() {
            let delay = full.wait_time_from(DefaultClock::default().now());
            tokio::time::sleep(delay).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_take_turns_and_known_ones_get_half() {
        const ATTACKER: u32 = 1;
        let handshakes = Handshakes::new(NonZeroU32::MIN);
        let mut turns = Vec::new();
        let mut push = |address, is_known| {
            let (turn, begins) = oneshot::channel();
            turns.push(begins);
            let address = SourceNumber(address);
            handshakes.push(Handshake { address, turn }, is_known);
        };
        (0..100).for_each(|_| push(ATTACKER, false));
        push(2, false);
        for known in [3, 4, 4] {
            push(known, true);
        }
        let order: Vec<u32> = (0..7)
            .filter_map(|_| handshakes.waiting.lock().pop())
            .map(|handshake| handshake.address.0)
            .collect();
        assert_eq!(order, [3, ATTACKER, 4, 2, 4, ATTACKER, ATTACKER]);
    }
}
