//! The ledger of connections: who their callers are, what each holds, and which of them may have much.
//!
//! A connection is trusted after its first successful login. Without the section `auth` it is trusted after its first whole
//! request. Until then it has a short time, and it is the first to go when there is no place for another connection.
//!
//! The caller of a call without an identity is the address of its connection (with IPv6, the /64). An address of this host, or
//! of a listed proxy, stands for many programs. There, each connection is a caller.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lease_broker_model::call_source::{CallSource, SharedBudget};
use lease_broker_model::network::network;
use lru::LruCache;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::budget::{Budget, Held};

/// The number of addresses that are remembered. Those without a recent login are forgotten first.
const ADDRESSES: NonZeroUsize = NonZeroUsize::new(16_384).unwrap();
/// The time for which a login from an address counts as recent.
const RECENT_LOGIN: Duration = Duration::from_secs(600);
/// The bytes of responses that a connection may hold uncharged.
const UNCHARGED_BYTES: usize = 64 << 10;
/// The memory of an open stream, measured, for the comparison of connections.
const STREAM_BYTES: usize = 6 << 10;
/// A connection that holds less memory is not ended for it.
const HEAVY_BYTES: usize = 1 << 20;

/// The connections without a place that may be open at a time. Each still has a file.
const MAX_LEAVING: usize = 16;

/// The connections of a server.
pub struct Ledger {
    max_connections: usize,
    places: Arc<Budget>,
    accounts: Mutex<Accounts>,
}

struct Accounts {
    /// By the order in which they were opened.
    open: BTreeMap<u64, Arc<Account>>,
    next: u64,
    addresses: LruCache<IpAddr, Arc<Address>>,
}

/// An address from which connections come.
struct Address {
    source: Arc<CallSource>,
    last_login: Mutex<Option<Instant>>,
}

/// What the ledger knows about a connection.
pub struct Account {
    /// The address that the connection comes from.
    pub peer: SocketAddr,
    /// The address is one of `server.trusted_proxies`: the connection carries the calls of many clients.
    pub is_proxy: bool,
    /// The caller of its calls without an identity.
    pub source: Arc<CallSource>,
    /// Cancelled when the connection must end now.
    pub end: CancellationToken,
    is_trusted: AtomicBool,
    /// Name and caller of the first login.
    identity: OnceLock<(String, Arc<CallSource>)>,
    opened: Instant,
    address: Arc<Address>,
    open_streams: AtomicUsize,
    response_bytes: AtomicUsize,
    /// `None`: another connection has got the place.
    place: Mutex<Option<Held>>,
}

/// The account of an open connection. Dropping it closes the account.
pub struct OpenAccount {
    ledger: Arc<Ledger>,
    number: u64,
    account: Arc<Account>,
}

impl Ledger {
    /// Creates a ledger for this number of connections.
    pub fn new(max_connections: usize) -> Arc<Self> {
        Arc::new(Self {
            max_connections,
            places: Budget::new(SharedBudget::Connections, max_connections),
            accounts: Mutex::new(Accounts {
                open: BTreeMap::new(),
                next: 0,
                addresses: LruCache::new(ADDRESSES),
            }),
        })
    }

    /// Opens the account of a connection. If there is no place for it, the oldest connection that is not trusted gives its place:
    /// of the same address if that has its share. `None`: there is no such connection.
    pub fn open(self: &Arc<Self>, peer: SocketAddr, is_proxy: bool) -> Option<OpenAccount> {
        let mut accounts = self.accounts.lock();
        let address = accounts.address(network(peer.ip()));
        // The connections of a proxy have no share together.
        let share = (!is_proxy).then(|| address.source.clone());
        let place = match self.places.take_place(share.clone()) {
            Some(place) => place,
            None if accounts.open.len() >= self.max_connections + MAX_LEAVING => return None,
            None => accounts.place_of_untrusted(&self.places, &address, share.as_ref())?,
        };
        let number = accounts.next;
        accounts.next += 1;
        let stands_for_many = is_proxy || peer.ip().to_canonical().is_loopback();
        let source = if stands_for_many {
            CallSource::new()
        } else {
            address.source.clone()
        };
        let account = Arc::new(Account {
            peer,
            is_proxy,
            source,
            end: CancellationToken::new(),
            is_trusted: AtomicBool::new(is_proxy),
            identity: OnceLock::new(),
            opened: Instant::now(),
            address,
            open_streams: AtomicUsize::new(0),
            response_bytes: AtomicUsize::new(0),
            place: Mutex::new(Some(place)),
        });
        accounts.open.insert(number, account.clone());
        Some(OpenAccount {
            ledger: self.clone(),
            number,
            account,
        })
    }

    /// Returns the accounts of the open connections, the oldest first.
    pub fn accounts(&self) -> Vec<Arc<Account>> {
        self.accounts.lock().open.values().cloned().collect()
    }

    /// Returns the number of open connections.
    pub fn open_connections(&self) -> usize {
        self.accounts.lock().open.len()
    }

    /// Ends the connection that holds most memory, and returns it. `None`: none holds much.
    pub fn end_heaviest(&self) -> Option<Arc<Account>> {
        let accounts = self.accounts().into_iter();
        let open = accounts.filter(|account| !account.end.is_cancelled());
        let heaviest = open.max_by_key(|account| account.memory())?;
        (heaviest.memory() >= HEAVY_BYTES).then(|| {
            heaviest.end.cancel();
            heaviest
        })
    }
}

impl Accounts {
    /// Returns an address. The one that is forgotten for it has no recent login, unless all have one.
    fn address(&mut self, network: IpAddr) -> Arc<Address> {
        if self.addresses.len() == ADDRESSES.get() && !self.addresses.contains(&network) {
            for _ in 0..ADDRESSES.get() {
                match self.addresses.peek_lru() {
                    Some((&oldest, address)) if address.has_recent_login() => {
                        self.addresses.promote(&oldest);
                    }
                    _ => break,
                }
            }
        }
        let address = self.addresses.get_or_insert(network, Address::new);
        address.clone()
    }

    /// Ends the oldest connection that is not trusted, and takes its place.
    fn place_of_untrusted(
        &self,
        places: &Arc<Budget>,
        address: &Arc<Address>,
        share: Option<&Arc<CallSource>>,
    ) -> Option<Held> {
        let take = |account: &Arc<Account>| {
            let place = account.place.lock().take()?;
            account.end.cancel();
            Some(place)
        };
        let untrusted = || self.open.values().filter(|account| !account.is_trusted());
        // A listed proxy has no share, and takes none from a neighbour of its network.
        let mut own =
            untrusted().filter(|account| share.is_some() && Arc::ptr_eq(&account.address, address));
        // The newcomer gets the same place, so one connection goes for it, and the address has as many as before.
        own.find_map(take).or_else(|| {
            // Its share is not used up, but every place is.
            let is_full = share.is_none_or(|share| places.may_have_more(share));
            drop(untrusted().filter(|_| is_full).find_map(take)?);
            places.take_place(share.cloned())
        })
    }
}

impl Address {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            source: CallSource::new(),
            last_login: Mutex::default(),
        })
    }

    fn has_recent_login(&self) -> bool {
        let last = *self.last_login.lock();
        last.is_some_and(|last| last.elapsed() < RECENT_LOGIN)
    }
}

impl Account {
    /// Notes that the client is trusted.
    pub fn trust(&self) {
        if !self.is_trusted.swap(true, Ordering::Relaxed) {
            *self.address.last_login.lock() = Some(Instant::now());
        }
    }

    /// Notes a successful login. `caller`: that of the identity, if it has one.
    pub fn log_in(&self, name: &str, caller: Option<&Arc<CallSource>>) {
        if self.identity.get().is_none()
            && let Some(caller) = caller
        {
            let _ = self.identity.set((name.to_owned(), caller.clone()));
        }
        if !self.is_trusted() {
            self.trust();
        }
    }

    /// Returns whether the client is trusted.
    pub fn is_trusted(&self) -> bool {
        self.is_trusted.load(Ordering::Relaxed)
    }

    /// Returns whether a connection of this address was trusted in the last ten minutes.
    pub fn has_recent_login(&self) -> bool {
        self.address.has_recent_login()
    }

    /// Returns the caller that stands for all connections of this address.
    pub fn address_source(&self) -> &CallSource {
        &self.address.source
    }

    /// Returns the name and the caller of the first login. `None`: there was none, or callers without credentials have a role.
    pub fn identity(&self) -> Option<&(String, Arc<CallSource>)> {
        self.identity.get()
    }

    /// Returns the age of the connection.
    pub fn age(&self) -> Duration {
        self.opened.elapsed()
    }

    /// Returns the number of streams whose responses have not left.
    pub fn open_streams(&self) -> usize {
        self.open_streams.load(Ordering::Relaxed)
    }

    /// Returns the bytes of responses that have not left.
    pub fn response_bytes(&self) -> usize {
        self.response_bytes.load(Ordering::Relaxed)
    }

    /// Counts a stream.
    pub fn add_stream(&self) {
        self.open_streams.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a stream whose response has left or was dropped.
    pub fn remove_stream(&self) {
        self.open_streams.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts bytes of a response. Returns whether the connection holds so many that they must be charged.
    pub fn add_response(&self, bytes: usize) -> bool {
        let before = self.response_bytes.fetch_add(bytes, Ordering::Relaxed);
        before + bytes > UNCHARGED_BYTES
    }

    /// Counts bytes of a response that have left or were dropped.
    pub fn remove_response(&self, bytes: usize) {
        self.response_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn memory(&self) -> usize {
        self.response_bytes() + STREAM_BYTES * self.open_streams()
    }

    /// Returns whether another connection has got the place.
    pub fn has_lost_its_place(&self) -> bool {
        self.place.lock().is_none()
    }
}

impl OpenAccount {
    /// Returns the account.
    pub fn account(&self) -> &Arc<Account> {
        &self.account
    }
}

impl Drop for OpenAccount {
    fn drop(&mut self) {
        self.ledger.accounts.lock().open.remove(&self.number);
        *self.account.place.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn peer(address: &str) -> SocketAddr {
        SocketAddr::new(address.parse().expect("an address"), 1)
    }

    fn open_all(ledger: &Arc<Ledger>, address: &str, count: usize) -> Vec<OpenAccount> {
        let opened = (0..count).map(|_| ledger.open(peer(address), false));
        opened.flatten().collect()
    }

    #[test]
    fn caller_without_login_is_its_address() {
        let ledger = Ledger::new(100);
        let open = |address, is_proxy| {
            let open = ledger.open(peer(address), is_proxy).expect("a place");
            open.account.source.number()
        };
        assert_eq!(open("10.0.0.1", false), open("10.0.0.1", false));
        assert_ne!(open("10.0.0.1", false), open("10.0.0.2", false));
        assert_eq!(open("2001:db8::1", false), open("2001:db8::2", false));
        for (address, is_proxy) in [("127.0.0.1", false), ("::1", false), ("10.0.0.9", true)] {
            assert_ne!(open(address, is_proxy), open(address, is_proxy));
        }
    }

    #[test]
    fn trusted_connections_of_one_address_leave_places_to_others() {
        let ledger = Ledger::new(8);
        let greedy = open_all(&ledger, "10.0.0.1", 6);
        for open in &greedy {
            open.account.trust();
        }
        assert!(ledger.open(peer("10.0.0.1"), false).is_none());
        let other = ledger.open(peer("10.0.0.2"), false).expect("a place");
        drop(greedy);
        assert_eq!(ledger.accounts().len(), 1);
        drop(other);
        assert_eq!(open_all(&ledger, "10.0.0.1", 6).len(), 6);
    }

    #[test]
    fn oldest_connection_without_login_makes_room() {
        let ledger = Ledger::new(8);
        let idle = open_all(&ledger, "10.0.0.1", 6);
        idle[0].account.trust();
        let newcomer = ledger.open(peer("10.0.0.1"), false).expect("a place");
        let ended = |open: &OpenAccount| open.account.end.is_cancelled();
        assert_eq!(idle.iter().filter(|open| ended(open)).count(), 1);
        assert!(ended(&idle[1]) && !ended(&newcomer));
        let lost = |open: &OpenAccount| open.account.has_lost_its_place();
        assert!(lost(&idle[1]) && !lost(&newcomer));
        let others: Vec<_> = (2..6)
            .map(|host| ledger.open(peer(&format!("10.0.0.{host}")), false))
            .collect();
        assert!(others.iter().all(Option::is_some));
        assert!(ended(&idle[2]) && ended(&idle[3]));
    }

    #[test]
    fn one_connection_goes_for_a_newcomer_of_an_address_over_its_share() {
        let ledger = Ledger::new(16);
        let own = open_all(&ledger, "10.0.0.1", 12);
        for open in &own[..10] {
            open.account.trust();
        }
        let _others = open_all(&ledger, "10.0.0.2", 3);
        let newcomers = [1, 2].map(|ended| {
            let newcomer = ledger.open(peer("10.0.0.1"), false).expect("a place");
            newcomer.account.trust();
            let gone = own.iter().filter(|open| open.account.end.is_cancelled());
            assert_eq!(gone.count(), ended);
            newcomer
        });
        assert!(ledger.open(peer("10.0.0.1"), false).is_none());
        drop(newcomers);
    }

    #[test]
    fn few_connections_without_a_place_are_open() {
        let ledger = Ledger::new(8);
        let mut open: Vec<_> = (0..100)
            .filter_map(|host| ledger.open(peer(&format!("10.0.0.{host}")), false))
            .collect();
        assert_eq!(open.len(), 8 + MAX_LEAVING);
        drop(open.remove(0));
        assert!(ledger.open(peer("10.0.1.1"), false).is_some());
    }

    #[test]
    fn heaviest_connection_goes_first() {
        let ledger = Ledger::new(8);
        let open = open_all(&ledger, "127.0.0.1", 3);
        assert!(ledger.end_heaviest().is_none());
        open[0].account.add_response(HEAVY_BYTES - 1);
        open[1].account.add_response(HEAVY_BYTES);
        open[2].account.add_response(HEAVY_BYTES);
        open[2].account.add_stream();
        for expected in [2, 1] {
            let heaviest = ledger.end_heaviest().expect("a connection");
            assert!(Arc::ptr_eq(&heaviest, &open[expected].account));
        }
        assert!(ledger.end_heaviest().is_none());
    }

    #[test]
    fn few_bytes_of_a_connection_are_uncharged() {
        let ledger = Ledger::new(8);
        let open = ledger.open(peer("10.0.0.1"), false).expect("a place");
        assert!(!open.account.add_response(UNCHARGED_BYTES));
        assert!(open.account.add_response(1));
    }

    #[test]
    fn login_of_a_connection_makes_its_address_known() {
        let ledger = Ledger::new(8);
        let open = open_all(&ledger, "10.0.0.1", 2);
        assert!(!open[0].account.has_recent_login());
        open[1].account.trust();
        assert!(open[0].account.has_recent_login() && !open[0].account.is_trusted());
    }

    #[test]
    fn strangers_push_no_recent_login_out() {
        let ledger = Ledger::new(8);
        let open = |address: u32| {
            let address = IpAddr::from(Ipv4Addr::from_bits(address));
            let open = ledger.open(SocketAddr::new(address, 1), false);
            open.expect("a place").account.clone()
        };
        let addresses = u32::try_from(ADDRESSES.get()).expect("a number");
        for known in [7, 8] {
            open(known).trust();
        }
        for stranger in 100..100 + 2 * addresses {
            open(stranger);
        }
        assert!(open(7).has_recent_login() && open(8).has_recent_login());
        assert_eq!(ledger.accounts.lock().addresses.len(), ADDRESSES.get());
    }
}
