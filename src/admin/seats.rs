//! The places of the admin port's connections. A further connection is always accepted: if there are too many, one of the address that
//! has the most goes. It is the one that has waited longest, and first of all one that has sent no request. So clients that are silent,
//! or that do not read, keep no probe out.
//!
//! A connection that follows a live page has another place, for as long as the page is open. If all of these are taken, the oldest of
//! the identity that has the most goes, unless the further one is of this identity too: then it is refused.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::http::Extensions;
use lease_broker_model::network::network;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The maximum number of open connections, from all addresses and from one.
const MAX: usize = 64;
const MAX_PER_ADDRESS: usize = 16;
/// The maximum number of connections that follow a live page.
pub(super) const MAX_VIEWERS: usize = 100;

/// The places of all connections.
#[derive(Default)]
pub(super) struct Seats(Mutex<Places>);

/// The places that are taken, in the order in which they were taken.
#[derive(Default)]
struct Places {
    visitors: Vec<Arc<Taken>>,
    /// Each with its identity.
    viewers: Vec<(String, Arc<Taken>)>,
}

struct Taken {
    address: IpAddr,
    network: IpAddr,
    has_request: AtomicBool,
    at: Instant,
    /// Cancelled when the connection must end.
    end: CancellationToken,
}

/// The place of one connection. Dropping it makes it free.
pub(super) struct Seat {
    seats: Arc<Seats>,
    taken: Arc<Taken>,
}

/// Returns the address of the client that has sent a request.
pub(super) fn peer(extensions: &Extensions) -> IpAddr {
    let seat = extensions.get::<Arc<Seat>>();
    seat.map_or(Ipv4Addr::LOCALHOST.into(), |seat| seat.address())
}

impl Seats {
    /// Takes a place, and ends the connection that must go for it.
    pub(super) fn take(self: &Arc<Self>, address: IpAddr) -> Seat {
        let taken = Arc::new(Taken {
            address,
            network: network(address),
            has_request: AtomicBool::new(false),
            at: Instant::now(),
            end: CancellationToken::new(),
        });
        let mut places = self.0.lock();
        let seats = &mut places.visitors;
        // With the new one.
        let mut numbers = HashMap::from([(taken.network, 1)]);
        for seat in &*seats {
            *numbers.entry(seat.network).or_default() += 1;
        }
        if numbers[&taken.network] > MAX_PER_ADDRESS {
            end_oldest(seats, |seat| seat.network == taken.network);
        } else if seats.len() >= MAX {
            let most = seats.iter().map(|seat| numbers[&seat.network]).max();
            end_oldest(seats, |seat| Some(numbers[&seat.network]) == most);
        }
        seats.push(taken.clone());
        drop(places);
        Seat {
            seats: self.clone(),
            taken,
        }
    }

    /// Tells the connections to end, except those whose request is being answered.
    pub(super) fn end_idle(&self) {
        let places = self.0.lock();
        let is_silent = |seat: &&Arc<Taken>| !seat.has_request.load(Ordering::Relaxed);
        let silent = places.visitors.iter().filter(is_silent);
        let viewers = places.viewers.iter().map(|(_, seat)| seat);
        for seat in silent.chain(viewers) {
            seat.end.cancel();
        }
    }
}

/// Ends the oldest of these connections that has sent no request, or the oldest if all have.
fn end_oldest(seats: &mut Vec<Arc<Taken>>, is_meant: impl Fn(&Arc<Taken>) -> bool) {
    let oldest = |is_silent: bool| {
        let is_next = |seat: &Arc<Taken>| {
            is_meant(seat) && !(is_silent && seat.has_request.load(Ordering::Relaxed))
        };
        seats.iter().position(is_next)
    };
    if let Some(index) = oldest(true).or_else(|| oldest(false)) {
        seats.remove(index).end.cancel();
    }
}

impl Seat {
    /// Returns the address of the client.
    pub(super) fn address(&self) -> IpAddr {
        self.taken.address
    }

    /// Returns the time at which the connection was accepted.
    pub(super) fn taken_at(&self) -> Instant {
        self.taken.at
    }

    /// Notes that the connection has sent its request.
    pub(super) fn has_request(&self) {
        self.taken.has_request.store(true, Ordering::Relaxed);
    }

    /// Gives the connection the place of one that follows a live page. Returns false, and changes nothing, if all of them are taken and
    /// no identity has more of them than this one.
    pub(super) fn follow(&self, identity: &str) -> bool {
        let mut places = self.seats.0.lock();
        if places.viewers.len() >= MAX_VIEWERS && !places.end_viewer_of_another(identity) {
            return false;
        }
        places.remove(&self.taken);
        let viewer = (identity.to_owned(), self.taken.clone());
        places.viewers.push(viewer);
        true
    }

    /// Returns whether the connection follows a live page.
    pub(super) fn follows(&self) -> bool {
        let places = self.seats.0.lock();
        let mut viewers = places.viewers.iter();
        viewers.any(|(_, seat)| Arc::ptr_eq(seat, &self.taken))
    }

    /// Tells the connection to end.
    pub(super) fn end(&self) {
        self.taken.end.cancel();
    }

    /// Waits until the connection must end.
    pub(super) async fn ended(&self) {
        self.taken.end.cancelled().await;
    }
}

impl Places {
    fn remove(&mut self, taken: &Arc<Taken>) {
        self.visitors.retain(|seat| !Arc::ptr_eq(seat, taken));
        self.viewers.retain(|(_, seat)| !Arc::ptr_eq(seat, taken));
    }

    /// Ends the oldest live page of the identity that has the most. Returns false if it is this one.
    fn end_viewer_of_another(&mut self, identity: &str) -> bool {
        let number = |of: &str| self.viewers.iter().filter(|(one, _)| one == of).count();
        // Of several that are equal, `max_by_key` returns the last one, so the oldest comes last.
        let viewers = self.viewers.iter().rev();
        let Some((most, _)) = viewers.max_by_key(|(one, _)| number(one)) else {
            return true;
        };
        if number(most) <= number(identity) {
            return false;
        }
        let most = most.clone();
        if let Some(index) = self.viewers.iter().position(|(one, _)| *one == most) {
            let (_, seat) = self.viewers.remove(index);
            seat.end.cancel();
        }
        true
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.0.lock().remove(&self.taken);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    /// An address of a network of its own.
    fn address(number: usize) -> IpAddr {
        Ipv6Addr::from_bits((0x2001_0db8_0000_0000 + number as u128) << 64).into()
    }

    fn ended(seats: &[Seat]) -> Vec<usize> {
        let ended = |(index, seat): (usize, &Seat)| seat.taken.end.is_cancelled().then_some(index);
        seats.iter().enumerate().filter_map(ended).collect()
    }

    #[test]
    fn oldest_without_a_request_goes_first() {
        let seats = Arc::new(Seats::default());
        let mut taken: Vec<Seat> = (0..MAX).map(|number| seats.take(address(number))).collect();
        taken[0].has_request();
        taken.push(seats.take(address(MAX)));
        assert_eq!(ended(&taken), [1]);
        taken.iter().for_each(Seat::has_request);
        taken.push(seats.take(address(MAX + 1)));
        assert_eq!(ended(&taken), [0, 1]);
    }

    #[test]
    fn address_with_many_connections_harms_only_itself() {
        let seats = Arc::new(Seats::default());
        let mut taken = vec![seats.take(address(0))];
        let same: IpAddr = "2001:db8:0:1::7".parse().expect("an address");
        taken.extend((0..MAX_PER_ADDRESS).map(|_| seats.take(same)));
        assert_eq!(ended(&taken), [0; 0]);
        taken.extend((0..2).map(|_| seats.take(address(1))));
        assert_eq!(ended(&taken), [1, 2]);
    }

    #[test]
    fn addresses_with_many_connections_harm_no_address_with_one() {
        let seats = Arc::new(Seats::default());
        let one = seats.take(address(0));
        // Each further connection of these addresses takes the place of one of their own.
        let greedy = (0..2 * MAX).map(|number| seats.take(address(1 + number % 6)));
        let greedy: Vec<Seat> = greedy.collect();
        greedy.iter().for_each(Seat::has_request);
        let newcomer = seats.take(address(7));
        let again = seats.take(address(1));
        assert_eq!(ended(&[one, newcomer, again]), [0; 0]);
        assert_eq!(ended(&greedy).len(), MAX + 3);
    }

    #[test]
    fn connection_that_has_ended_takes_no_place() {
        let seats = Arc::new(Seats::default());
        for _ in 0..2 * MAX_PER_ADDRESS {
            let seat = seats.take(address(0));
            assert!(!seat.taken.end.is_cancelled());
        }
        let kept: Vec<Seat> = (0..MAX_PER_ADDRESS)
            .map(|_| seats.take(address(0)))
            .collect();
        assert_eq!(ended(&kept), [0; 0]);
    }

    #[test]
    fn viewers_have_places_of_their_own() {
        let seats = Arc::new(Seats::default());
        let viewers: Vec<Seat> = (0..MAX_VIEWERS)
            .map(|_| {
                let seat = seats.take(address(0));
                assert!(seat.follow("observer"));
                seat
            })
            .collect();
        let mut taken: Vec<Seat> = (0..MAX_PER_ADDRESS)
            .map(|_| seats.take(address(0)))
            .collect();
        assert!(!taken[0].follow("observer"));
        assert!(!taken[0].follows());
        taken.push(seats.take(address(0)));
        assert_eq!(ended(&taken), [0], "one that is refused keeps its place");
        assert_eq!(ended(&viewers), [0; 0]);
        assert!(taken[1].follow("admin"));
        assert!(taken[1].follows());
        assert_eq!(ended(&viewers), [0], "the oldest of the one who has many");
    }
}
