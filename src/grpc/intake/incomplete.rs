//! The budget of requests that have arrived in part (`budgets.incomplete_requests`).
//!
//! A request takes a place in the budget from its headers to its last byte. If no place is free, a request of a connection
//! that has more places loses its place. If there is no such connection, the request that has been incomplete for longest
//! loses its place, provided that it is older than a second.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::grpc::connections::Connection;

/// The part of the budget that the requests of one connection may take: an eighth.
const CONNECTION_PART: usize = 8;
/// The age from which a request can lose its place to another.
const MIN_AGE: Duration = Duration::from_secs(1);

/// The places of all connections.
pub(in crate::grpc) struct Incomplete {
    max: usize,
    seated: Mutex<Seated>,
}

#[derive(Default)]
struct Seated {
    next: u64,
    /// By the order in which they were taken.
    seats: BTreeMap<u64, Taken>,
}

/// A place that is taken.
struct Taken {
    connection: Arc<Connection>,
    since: Instant,
    /// Cancelled when another request takes the place.
    lost: CancellationToken,
}

impl Seated {
    /// Returns the number of the place that a request of a connection with `own` places may take from another request.
    fn seat_to_lose(&self, own: usize, now: Instant) -> Option<u64> {
        let is_greedier = |taken: &Taken| {
            let theirs = taken.connection.incomplete_requests.load(Ordering::Relaxed);
            theirs > own + 1 && !taken.connection.peer.is_proxy
        };
        let mut seats = self.seats.iter();
        let greedy = seats.find(|(_, taken)| is_greedier(taken));
        let is_old = |(_, taken): &(&u64, &Taken)| now.duration_since(taken.since) >= MIN_AGE;
        let seat = greedy.or_else(|| self.seats.first_key_value().filter(is_old));
        seat.map(|(number, _)| *number)
    }
}

/// A place in the budget. It is returned when the value is dropped.
pub(super) struct Seat {
    incomplete: Arc<Incomplete>,
    connection: Arc<Connection>,
    number: u64,
    lost: CancellationToken,
}

impl Incomplete {
    pub(in crate::grpc) fn new(max: usize) -> Self {
        Self {
            max,
            seated: Mutex::default(),
        }
    }

    /// Takes a place. `None`: too many requests are incomplete, on this connection or on all.
    pub(super) fn take(self: &Arc<Self>, connection: &Arc<Connection>) -> Option<Seat> {
        let own = connection.incomplete_requests.load(Ordering::Relaxed);
        // The connections of a proxy carry the calls of many clients.
        if own >= self.max.div_ceil(CONNECTION_PART) && !connection.peer.is_proxy {
            return None;
        }
        let mut seated = self.lock();
        let now = Instant::now();
        if seated.seats.len() >= self.max {
            let number = seated.seat_to_lose(own, now)?;
            let taken = seated.seats.remove(&number)?;
            taken.lost.cancel();
        }
        let number = seated.next;
        seated.next += 1;
        let lost = CancellationToken::new();
        let taken = Taken {
            connection: connection.clone(),
            since: now,
            lost: lost.clone(),
        };
        seated.seats.insert(number, taken);
        connection
            .incomplete_requests
            .fetch_add(1, Ordering::Relaxed);
        Some(Seat {
            incomplete: self.clone(),
            connection: connection.clone(),
            number,
            lost,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Seated> {
        self.seated.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// Waits until another request has taken the place.
    pub(super) async fn lost(&self) {
        self.lost.cancelled().await;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.incomplete.lock().seats.remove(&self.number);
        self.connection
            .incomplete_requests
            .fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_connection_gets_an_eighth() {
        let seats = Arc::new(Incomplete::new(16));
        let greedy = Connection::of_test(false);
        let first = seats.take(&greedy).expect("a seat");
        let _second = seats.take(&greedy).expect("a seat");
        assert!(seats.take(&greedy).is_none());
        assert!(seats.take(&Connection::of_test(false)).is_some());
        drop(first);
        assert!(seats.take(&greedy).is_some());
    }

    #[tokio::test]
    async fn greedy_connections_make_room_for_others() {
        let seats = Arc::new(Incomplete::new(16));
        let greedy: Vec<_> = (0..8).map(|_| Connection::of_test(false)).collect();
        let taken: Vec<_> = greedy
            .iter()
            .flat_map(|connection| [connection; 2])
            .map(|connection| seats.take(connection).expect("a seat"))
            .collect();
        let modest = Connection::of_test(false);
        let _seat = seats.take(&modest).expect("a seat");
        assert!(taken[0].lost.is_cancelled());
        assert_eq!(
            taken.iter().filter(|seat| seat.lost.is_cancelled()).count(),
            1
        );
        // Each has as many as the others now, or one more.
        assert!(seats.take(&modest).is_none());
    }

    #[tokio::test]
    async fn connection_of_a_proxy_gets_all() {
        let seats = Arc::new(Incomplete::new(3));
        let proxy = Connection::of_test(true);
        let taken: Vec<_> = (0..4).map(|_| seats.take(&proxy)).collect();
        assert_eq!(taken.iter().flatten().count(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn oldest_request_loses_its_seat_after_a_second() {
        let seats = Arc::new(Incomplete::new(2));
        let proxy = Connection::of_test(true);
        let oldest = seats.take(&proxy).expect("a seat");
        tokio::time::advance(MIN_AGE / 2).await;
        let second = seats.take(&proxy).expect("a seat");
        assert!(seats.take(&proxy).is_none());
        tokio::time::advance(MIN_AGE / 2).await;
        let _third = seats.take(&proxy).expect("a seat");
        oldest.lost().await;
        assert!(!second.lost.is_cancelled());
        drop(oldest);
        assert!(seats.take(&proxy).is_none());
    }
}
