//! The state of a worker that its tasks share: slots, leases, running handlers, and endings that are not settled.
//!
//! One lock guards it. Events and other effects of a change run after the lock is released, because an observer may ask
//! for the worker's health.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::calls::CallTimes;
use super::context::{Cause, Context};
use super::control::Control;
use super::endings::{Ending, Kind};
use super::events::{Event, EventLog, EventName};
use super::gathering::Gathering;
use super::health::ConnectionHealth;
use super::item::{HeldLeases, Item, LeaseNumber, LeaseState};
use super::leases::{HeldLease, Phase, Run, RunNumber, Start};
use super::options::Options;
use super::values::{after, duration_from_proto};
use lease_broker_proto as proto;

/// The largest checkpoint that a broker can be configured to store, in bytes.
const MAX_CHECKPOINT_BYTES: usize = 65_536;
/// The time for which checkpoints of a refused length are left out. Then a changed limit of the queue counts.
const CHECKPOINT_PAUSE: Duration = Duration::from_secs(60);
/// The number of keys in a line of the log about items that were lost.
const MAX_NAMED: usize = 10;
/// The reason of a loss for which the broker gives none.
pub(super) const LOST_BY_BROKER: &str = "the broker has ended the lease";
/// Stands for the duration of a lease before one was seen.
const DEFAULT_LEASE: Duration = Duration::from_secs(30);

/// The clock of a worker.
pub(super) type Clock = fn() -> Instant;

/// Runs the handler for each run, and passes the endings to the state.
pub(super) type StartHandlers = Box<dyn Fn(&Arc<State>, Vec<Start>) + Send + Sync>;

pub(super) struct State {
    pub(super) options: Arc<Options>,
    pub(super) events: Arc<EventLog>,
    pub(super) signals: Arc<Signals>,
    pub(super) health: ConnectionHealth,
    pub(super) control: Control,
    start_handlers: StartHandlers,
    shared: Mutex<Shared>,
}

/// Wake the tasks when the state has changed for them.
#[derive(Default)]
pub(super) struct Signals {
    /// The pollers.
    pub(super) slots_free: Notify,
    /// The settler.
    pub(super) endings_ready: Notify,
    /// The keeper.
    pub(super) clock: Notify,
    /// The task that stops the worker.
    pub(super) changed: Notify,
}

pub(super) struct Shared {
    pub(super) options: Arc<Options>,
    signals: Arc<Signals>,
    events: Arc<EventLog>,
    /// [`Instant::now`], except in a test.
    pub(super) clock: Clock,
    effects: Vec<Effect>,
    /// Items that were lost and are not logged yet, by whether their handlers have ended and the reason.
    losses: BTreeMap<(bool, String), Vec<Item>>,
    /// The runs that begin after the effects.
    starts: Vec<Start>,
    next_run: RunNumber,
    /// The slots for which a claim is not answered yet.
    reserved: usize,
    pub(super) held: BTreeMap<LeaseNumber, HeldLease>,
    pub(super) runs: BTreeMap<RunNumber, Run>,
    pub(super) gathering: Gathering,
    pub(super) endings: VecDeque<Ending>,
    /// Endings whose rows are locked, with the moments from which they are sent again.
    pub(super) locked: Vec<(Instant, Ending)>,
    /// True while a group is being settled.
    pub(super) settling: bool,
    pub(super) stuck: usize,
    pub(super) claims: Claims,
    /// True when the settler shall end with its last group.
    pub(super) settled_all: bool,
    /// The moment at which the keeper looks again by itself.
    pub(super) keeper_looks_at: Instant,
    /// The time of the next heartbeat. `None`: no lease is held.
    pub(super) next_heartbeat: Option<Instant>,
    /// Request ids of claims whose answer will not be read. The broker may have leased items for them.
    pub(super) abandoned: Vec<String>,
    /// Checkpoints of this many bytes or more are left out until a moment, because the broker has refused one.
    refused_checkpoints: Option<(usize, Instant)>,
    /// The number of items that the worker may still claim. `None`: no limit.
    budget: Option<usize>,
}

/// Slots that are reserved for a claim, and the largest number of items that it may get for them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reserved {
    pub(super) slots: usize,
    pub(super) items: usize,
}

/// Whether the worker claims items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claims {
    Open,
    /// No claim follows. Items that still arrive are processed.
    Ended,
    /// The worker stops. Items that still arrive are released.
    Stopped,
}

enum Effect {
    Emit(Event),
    Cancel(Context, Cause),
    Drop(Context),
}

impl State {
    pub(super) fn new(options: Options, start_handlers: StartHandlers) -> Self {
        let events = EventLog::new(options.queue.clone(), options.on_event.clone());
        let (options, events) = (Arc::new(options), Arc::new(events));
        let signals = Arc::new(Signals::default());
        let shared = Shared {
            effects: Vec::new(),
            losses: BTreeMap::new(),
            starts: Vec::new(),
            next_run: 0,
            reserved: 0,
            held: BTreeMap::new(),
            runs: BTreeMap::new(),
            gathering: Gathering::new(options.concurrency),
            endings: VecDeque::new(),
            locked: Vec::new(),
            settling: false,
            stuck: 0,
            claims: Claims::Open,
            settled_all: false,
            keeper_looks_at: Instant::now(),
            next_heartbeat: None,
            abandoned: Vec::new(),
            refused_checkpoints: None,
            budget: options.max_items,
            options: options.clone(),
            signals: signals.clone(),
            events: events.clone(),
            clock: Instant::now,
        };
        Self {
            health: ConnectionHealth::new(events.clone()),
            control: Control::new(options.clone()),
            options,
            events,
            signals,
            start_handlers,
            shared: Mutex::new(shared),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state under the lock, and then runs the effects of the change.
    pub(super) fn update<T>(self: &Arc<Self>, change: impl FnOnce(&mut Shared) -> T) -> T {
        let mut shared = self.lock();
        let result = change(&mut shared);
        let effects = std::mem::take(&mut shared.effects);
        let starts = std::mem::take(&mut shared.starts);
        let losses = std::mem::take(&mut shared.losses);
        drop(shared);
        for ((is_processed, reason), items) in losses {
            self.log_loss(is_processed, &reason, &items);
        }
        for effect in effects {
            match effect {
                Effect::Emit(event) => self.events.emit(event),
                Effect::Cancel(context, cause) => context.cancel(cause),
                Effect::Drop(context) => context.drop_handler(),
            }
        }
        if !starts.is_empty() {
            (self.start_handlers)(self, starts);
        }
        result
    }

    /// Logs the items that one change has lost for the same reason.
    fn log_loss(&self, is_processed: bool, reason: &str, items: &[Item]) {
        let text = if is_processed {
            "processed, but another worker may process it again"
        } else {
            "lease lost: another worker may process the item"
        };
        let (named, others) = items.split_at(items.len().min(MAX_NAMED));
        let keys: Vec<_> = named.iter().map(Item::key).collect();
        let attempts: Vec<_> = named.iter().map(Item::attempt).collect();
        let (queue, others) = (&self.options.queue, others.len());
        tracing::warn!(queue, ?keys, ?attempts, others, reason, "{text}");
    }

    /// Starts handlers for the leases of a claim.
    pub(super) fn accept(
        self: &Arc<Self>,
        messages: Vec<proto::Lease>,
        reserved: Reserved,
        times: CallTimes,
    ) {
        let lease = |mut message: proto::Lease| {
            let id = std::mem::take(&mut message.lease_id);
            let duration = duration_from_proto(message.time_left);
            let leases: Weak<Self> = Arc::downgrade(self);
            let item = Item::new(message, Some(leases));
            HeldLease::new(id, item, duration, times.sent_at, times.arrived_at)
        };
        let leases: Vec<_> = messages.into_iter().map(lease).collect();
        self.update(|shared| shared.accept(leases, reserved, times.attempts > 1));
    }

    /// Returns the time without an answer after which the worker is not healthy.
    pub(super) fn longest_lease(&self) -> Duration {
        let shared = self.lock();
        let held = shared.held.values().map(|lease| lease.duration);
        held.chain(self.options.lease)
            .max()
            .unwrap_or(DEFAULT_LEASE)
    }
}

impl HeldLeases for State {
    fn look(&self, lease: LeaseNumber) -> Option<LeaseState> {
        self.lock().held.get(&lease).map(|lease| LeaseState {
            deadline: lease.deadline,
            is_running: lease.phase == Phase::Running,
            in_doubt: lease.in_doubt,
        })
    }

    fn save_checkpoint(&self, lease: LeaseNumber, checkpoint: &[u8]) {
        let mut shared = self.lock();
        // A later one could replace the last one of the handler, for its next attempt.
        let Some(held) = shared.held.get_mut(&lease) else {
            return;
        };
        if held.phase != Phase::Running {
            return;
        }
        if checkpoint.len() > MAX_CHECKPOINT_BYTES {
            let problem = format!("a queue stores at most {MAX_CHECKPOINT_BYTES} bytes");
            return shared.refuse_checkpoint(lease, checkpoint.len(), &problem);
        }
        held.checkpoint = Some(checkpoint.to_vec());
        held.saved += 1;
    }
}

impl Shared {
    pub(super) fn emit(&mut self, event: Event) {
        self.effects.push(Effect::Emit(event));
    }

    /// Emits an event without details, of which each item has some.
    pub(super) fn emit_of_item(&mut self, name: EventName, item: &Item) {
        if self.events.is_observed() {
            self.emit(Event::of_item(name, item));
        } else {
            self.events.count(name);
        }
    }

    /// Notes that another worker may process the item of a lease again. The items that a change loses are logged together.
    pub(super) fn note_loss(&mut self, lease: &HeldLease, reason: &str) {
        let runs = lease.run.is_some_and(|run| self.runs.contains_key(&run));
        let loss = (
            lease.run.is_some() && !runs && !lease.is_released,
            reason.to_owned(),
        );
        self.losses
            .entry(loss)
            .or_default()
            .push(lease.item.clone());
    }

    /// Reserves the free slots for a claim. Returns no slots if the worker claims no items now.
    pub(super) fn reserve_slots(&mut self) -> Reserved {
        if self.claims != Claims::Open || self.stuck > self.options.max_stuck() {
            return Reserved::default();
        }
        // Otherwise a worker whose endings all meet a lock would claim without an end.
        let held = self.held.values();
        let resending = held.filter(|lease| lease.phase == Phase::Resending);
        if resending.count() >= self.options.concurrency {
            return Reserved::default();
        }
        let batch = self.options.batch;
        let mut slots = self.free_slots().min(self.options.max_slots_per_call());
        let mut items = slots * batch;
        if let Some(budget) = &mut self.budget {
            items = items.min(*budget);
            slots = items.div_ceil(batch);
            *budget -= items;
        }
        self.reserved += slots;
        Reserved { slots, items }
    }

    /// Reserves the slots for which a poller claims. Endings are settled first: the same call claims the next items.
    pub(super) fn slots_to_claim(&mut self) -> Reserved {
        if self.settling || !self.endings.is_empty() {
            return Reserved::default();
        }
        self.reserve_slots()
    }

    /// Returns the number of slots that neither a handler nor a claim has. A stuck handler that may be replaced has none.
    fn free_slots(&self) -> usize {
        let slots = self.options.concurrency + self.stuck.min(self.options.max_stuck());
        slots.saturating_sub(self.runs.len() + self.reserved)
    }

    /// Ends the reservation of slots: their claim was answered. `answered.items`: the items that did not come.
    pub(super) fn return_slots(&mut self, answered: Reserved) {
        if let Some(budget) = &mut self.budget {
            *budget += answered.items;
        }
        self.reserved -= answered.slots;
        self.wake();
    }

    /// Wakes the tasks that wait for slots, and the one that waits for the end.
    fn wake(&mut self) {
        // A task that is woken costs as much as a short handler. Pollers leave the slots to endings.
        if !self.settling && self.endings.is_empty() {
            self.signals.slots_free.notify_waiters();
        }
        let may_end = self.claims != Claims::Open || self.budget == Some(0);
        if may_end && self.runs.is_empty() {
            self.signals.changed.notify_one();
        }
    }

    fn accept(&mut self, leases: Vec<HeldLease>, reserved: Reserved, repeated: bool) {
        let mut items = Vec::with_capacity(leases.len());
        let now = (self.clock)();
        let mut look_at = self.options.time_limit.map(|limit| after(now, limit));
        self.effects.reserve(2 * leases.len());
        for lease in leases {
            let number = lease.item.lease();
            // The response to a repeated claim can have a lease that the worker holds already.
            if repeated && self.held.values().any(|held| held.id == lease.id) {
                continue;
            }
            self.emit_of_item(EventName::Claimed, &lease.item);
            let is_over = now >= lease.lost_at(self.options.heartbeat);
            let beat_at = if lease.unconfirmed {
                now
            } else {
                now + lease.heartbeat_period()
            };
            let earliest = after(lease.last_answer, lease.duration / 3).min(beat_at);
            look_at = Some(look_at.map_or(earliest, |at| at.min(earliest)));
            let item = lease.item.clone();
            self.held.insert(number, lease);
            if is_over {
                // The process was suspended since the response arrived.
                self.lose(number, self.options.lost_reason());
                continue;
            }
            self.beat_no_later_than(beat_at);
            items.push(item);
        }
        if look_at.is_some_and(|at| at < self.keeper_looks_at) {
            self.signals.clock.notify_one();
        }
        if self.claims == Claims::Stopped {
            for item in &items {
                self.settle(Ending::released(item.lease(), None));
            }
            return self.return_slots(reserved);
        }
        let answered = Reserved {
            slots: reserved.slots,
            items: reserved.items.saturating_sub(items.len()),
        };
        if self.options.batch == 1 {
            for item in items {
                self.start(Arc::new([item]), now);
            }
        } else {
            for batch in items.chunks(self.options.batch) {
                self.start(batch.into(), now);
            }
        }
        self.return_slots(answered);
    }

    /// Runs the handler for items that fill one slot.
    fn start(&mut self, items: Arc<[Item]>, now: Instant) {
        let number = self.next_run;
        self.next_run += 1;
        let (context, drops) = Context::new();
        for item in &*items {
            if let Some(lease) = self.held.get_mut(&item.lease()) {
                lease.run = Some(number);
            }
            self.emit_of_item(EventName::Started, item);
        }
        self.starts.push(Start {
            run: number,
            items: items.clone(),
            context: context.clone(),
            drops,
        });
        let run = Run {
            items,
            context,
            started_at: now,
            cancelled: None,
            stuck: false,
        };
        self.runs.insert(number, run);
    }

    /// Queues the endings of a handler that has returned. Endings of leases that were lost are dropped. The run is returned, so
    /// that it is freed after the lock is released.
    pub(super) fn end(&mut self, number: RunNumber, endings: Vec<Ending>) -> Option<Run> {
        let run = self.runs.remove(&number)?;
        let now = (self.clock)();
        self.gathering.note(now.duration_since(run.started_at));
        for item in &*run.items {
            let number = item.lease();
            // The process may have been suspended for so long that the keeper has not looked yet.
            let is_over = self.held.get(&number).is_some_and(|lease| {
                lease.phase == Phase::Running && now >= lease.lost_at(self.options.heartbeat)
            });
            if is_over {
                self.lose(number, self.options.lost_reason());
            }
        }
        for ending in endings {
            self.settle(ending);
        }
        self.stuck -= usize::from(run.stuck);
        self.wake();
        Some(run)
    }

    /// Releases the items of a run whose task was dropped, because the runtime of the handlers has ended. The worker stops: it
    /// cannot run a handler any more.
    pub(super) fn end_dropped(&mut self, number: RunNumber) -> Option<Run> {
        self.claims = Claims::Stopped;
        let items = self.runs.get(&number)?.items.clone();
        let released = |item: &Item| Ending::released(item.lease(), None);
        let run = self.end(number, items.iter().map(released).collect());
        self.signals.changed.notify_one();
        run
    }

    /// Passes an ending to the settler, unless the lease has ended already.
    pub(super) fn settle(&mut self, ending: Ending) {
        if let Some(lease) = self.held.get_mut(&ending.lease)
            && lease.phase == Phase::Running
        {
            lease.phase = Phase::Ended;
            lease.is_released = ending.kind == Kind::Release;
            self.endings.push_back(ending);
            self.signals.endings_ready.notify_one();
        }
    }

    /// Queues endings again whose pause after a lock is over. Returns the end of the next pause.
    pub(super) fn requeue_locked(&mut self) -> Option<Instant> {
        let now = (self.clock)();
        let due = self.locked.extract_if(.., |(at, _)| *at <= now);
        self.endings.extend(due.map(|(_, ending)| ending));
        self.locked.iter().map(|(at, _)| *at).min()
    }

    /// Drops a lease that was lost, and cancels its handler if it has no other lease.
    pub(super) fn lose(&mut self, number: LeaseNumber, reason: &str) {
        let Some(lease) = self.held.remove(&number) else {
            return;
        };
        self.emit(Event::of_item(EventName::Lost, &lease.item).with_reason(reason));
        let known = if reason.is_empty() {
            LOST_BY_BROKER
        } else {
            reason
        };
        self.note_loss(&lease, known);
        let Some(run) = lease.run.filter(|run| self.runs.contains_key(run)) else {
            return;
        };
        let items = &self.runs[&run].items;
        if !items
            .iter()
            .any(|item| self.held.contains_key(&item.lease()))
        {
            self.cancel(run, Cause::LeaseLost, reason);
        }
    }

    /// Cancels a handler, unless it is cancelled already.
    pub(super) fn cancel(&mut self, number: RunNumber, cause: Cause, reason: &str) {
        let Some(run) = self.runs.get_mut(&number) else {
            return;
        };
        if run.cancelled.is_some() {
            return;
        }
        run.cancelled = Some((cause, (self.clock)()));
        let (items, context) = (run.items.clone(), run.context.clone());
        for item in &*items {
            let mut event = Event::of_item(EventName::Cancelled, item).with_reason(reason);
            event.cause = Some(cause);
            self.emit(event);
        }
        self.effects.push(Effect::Cancel(context, cause));
        self.signals.clock.notify_one();
    }

    /// Cancels all handlers, because the worker stops.
    pub(super) fn cancel_all(&mut self) {
        let runs: Vec<_> = self.runs.keys().copied().collect();
        for run in runs {
            self.cancel(run, Cause::Shutdown, "");
        }
    }

    /// Drops the leases of handlers that do not end. They expire: the handlers may still act on their items.
    pub(super) fn leave_handlers(&mut self) {
        for item in self.runs.values().flat_map(|run| &*run.items) {
            let lease = self.held.get(&item.lease());
            if lease.is_some_and(|lease| lease.phase == Phase::Running) {
                self.held.remove(&item.lease());
            }
        }
    }

    /// Reports and drops the leases whose settlement has no answer when the worker stops. Those of handlers were dropped before.
    pub(super) fn leave_endings(&mut self) {
        for lease in std::mem::take(&mut self.held).into_values() {
            let event = Event::of_item(EventName::Unknown, &lease.item);
            let error = "the worker has stopped";
            self.emit(event.with_error(error));
            self.note_loss(&lease, error);
        }
    }

    /// Drops the future of a handler that was cancelled.
    pub(super) fn drop_handler(&mut self, number: RunNumber) {
        if let Some(run) = self.runs.get(&number) {
            self.effects.push(Effect::Drop(run.context.clone()));
        }
    }

    /// Gives a handler that does not stop up: drops its leases, and makes room for another handler.
    pub(super) fn give_up(&mut self, number: RunNumber) {
        let Some(run) = self.runs.get_mut(&number) else {
            return;
        };
        run.stuck = true;
        self.stuck += 1;
        let (items, cause) = (run.items.clone(), run.cancelled.map(|(cause, _)| cause));
        for item in &*items {
            let lease = self.held.get(&item.lease());
            if lease.is_some_and(|lease| lease.phase == Phase::Running) {
                self.held.remove(&item.lease());
            }
            let mut event = Event::of_item(EventName::Stuck, item);
            event.cause = cause;
            self.emit(event);
        }
        let key = items.first().map_or("", Item::key);
        tracing::error!(
            queue = self.options.queue,
            key,
            stuck = self.stuck,
            "handler does not stop"
        );
        self.wake();
    }

    pub(super) fn beat_no_later_than(&mut self, moment: Instant) {
        let next = self.next_heartbeat.map_or(moment, |next| next.min(moment));
        self.next_heartbeat = Some(next);
    }

    /// Returns the number of bytes from which on checkpoints are left out now.
    pub(super) fn refused_bytes(&self) -> usize {
        let refused = self.refused_checkpoints;
        let refused = refused.filter(|(_, until)| (self.clock)() < *until);
        refused.map_or(usize::MAX, |(bytes, _)| bytes)
    }

    /// Leaves out a checkpoint of this many bytes, which was refused, and longer ones, from calls to come.
    pub(super) fn refuse_checkpoint(&mut self, lease: LeaseNumber, bytes: usize, reason: &str) {
        if bytes >= self.refused_bytes() {
            return;
        }
        let until = (self.clock)() + CHECKPOINT_PAUSE;
        self.refused_checkpoints = Some((bytes, until));
        let key = self.held.get(&lease).map(|lease| lease.item.key());
        let queue = &*self.options.queue;
        tracing::error!(
            queue,
            key,
            bytes,
            error = reason,
            "a checkpoint is left out, and so are others of its length or longer for 60 s"
        );
    }

    /// Claims nothing more: a claim has found no item.
    pub(super) fn end_claims(&mut self) {
        if self.claims == Claims::Open {
            self.claims = Claims::Ended;
        }
        self.signals.changed.notify_one();
    }

    /// Returns whether the worker claims no further item and has none left to do.
    pub(super) fn is_finished(&self) -> bool {
        (self.claims == Claims::Ended || self.budget == Some(0))
            && self.held.is_empty()
            && self.runs.is_empty()
            && self.reserved == 0
    }
}
