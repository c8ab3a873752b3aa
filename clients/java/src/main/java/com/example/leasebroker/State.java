package com.example.leasebroker;

import com.example.leasebroker.v1.Lease;
import com.google.protobuf.ByteString;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;
import java.util.function.Predicate;
import java.util.function.Supplier;
import java.util.stream.Collectors;

/** The state of a worker that its threads share: slots, leases, running handlers, and endings that are not settled. */
final class State {
  /** The most bytes of a checkpoint that a broker can be configured to store. */
  private static final int MAX_CHECKPOINT_BYTES = 65_536;

  /** The time for which checkpoints of a refused length are left out. Then a changed limit of the queue counts. */
  private static final long CHECKPOINT_PAUSE = 60_000_000_000L;

  /** The number of keys in a line of the log about items that were lost. */
  private static final int MAX_NAMED = 10;

  /** Stands for the duration of a lease while none was seen. */
  private static final long DEFAULT_LEASE = 30 * Clock.SECOND;

  final Options options;
  final EventLog events;
  final ReentrantLock lock = new ReentrantLock();

  /** The pollers wait here: a slot may be free. */
  final Condition slotsFree = lock.newCondition();

  /** The settler waits here: an item has ended. */
  final Condition endingsReady = lock.newCondition();

  /** The keeper waits here: a lease has arrived, or a time has changed. `wakeKeeper` also notes it. */
  final Condition clock = lock.newCondition();

  boolean clockChanged;

  /** `stop` waits here: a handler has returned. */
  final Condition changed = lock.newCondition();

  final Map<String, HeldLease> held = new LinkedHashMap<>();
  final Set<Run> runs = new HashSet<>();
  final Gathering gathering;
  final Deque<Ending> endings = new ArrayDeque<>();

  /** Endings whose rows are locked. They are queued again at the times of their leases. */
  final List<Ending> locked = new ArrayList<>();

  /** The request ids of claims whose answer will not be read. The broker may have leased items for them. */
  final List<String> abandoned = new ArrayList<>();

  /** Runs handlers in threads of their own. */
  Consumer<List<Run>> start = runs -> {};

  /** True while a group is being settled. */
  boolean settling;

  int stuck;

  /** False as soon as the worker stops. */
  boolean takesItems = true;

  /** True when the settler shall end with its last group. */
  boolean settledAll;

  /** The time of the next heartbeat. */
  long nextBeat = Clock.NEVER;

  /** The time at which the keeper looks again. Until it has looked once, it is about to look. */
  long nextLook;

  /** The slots for which a claim is not answered yet, and those of refused runs that still wait for a thread. */
  private int reserved;

  /** Checkpoints of this many bytes or more are left out until a moment, because the broker has refused one. */
  private int refusedCheckpoint = Integer.MAX_VALUE;
  private long checkpointsRefusedUntil;

  /** The events and actions that follow a change. `update` runs them in order, without the lock. */
  private List<Runnable> effects = new ArrayList<>();

  /** The items that were lost and are not logged yet, by the text of their line. */
  private Map<String, List<Item>> losses = new LinkedHashMap<>();

  State(Options options, EventLog events) {
    this.options = options;
    this.gathering = new Gathering(options.concurrency());
    this.events = events;
  }

  /** Makes a change under the lock, and then runs its effects. Must not be called with the lock. */
  void update(Runnable change) {
    lock.lock();
    try {
      change.run();
    } finally {
      unlock();
    }
  }

  /** Releases the lock after a change, and then runs the effects of the change. */
  private void unlock() {
    List<Runnable> follow = List.of();
    if (!effects.isEmpty()) {
      follow = effects;
      effects = new ArrayList<>();
    }
    if (!losses.isEmpty()) {
      losses = new LinkedHashMap<>();
    }
    lock.unlock();
    for (Runnable effect : follow) {
      try {
        effect.run();
      } catch (Throwable error) {
        // The other effects follow all the same.
        ErrorLog.log(options.logger(), "an effect of the worker's state has failed", error);
      }
    }
  }

  <T> T read(Supplier<T> look) {
    lock.lock();
    try {
      return look.get();
    } finally {
      lock.unlock();
    }
  }

  void follow(Runnable effect) {
    effects.add(effect);
  }

  void emit(Event event) {
    effects.add(new Emission(events, event));
  }

  /** Reports an event. Each item has several, and without an optimizing compiler an object of a class costs less than a lambda. */
  private record Emission(EventLog events, Event event) implements Runnable {
    @Override
    public void run() {
      events.emit(event);
    }
  }

  /** Lets the keeper look at all times again, unless it will have looked by this moment. */
  private void wakeKeeper(long moment) {
    if (moment < nextLook) {
      wakeKeeper();
    }
  }

  /** Lets the keeper look at all times again. */
  void wakeKeeper() {
    clockChanged = true;
    clock.signalAll();
  }

  /** Takes the free slots for a claim. Returns 0 if the worker takes no items now. */
  int reserveSlots() {
    if (!takesItems || stuck > options.maxStuck()) {
      return 0;
    }
    // Otherwise a worker whose endings all meet a lock would claim without an end.
    if (held.values().stream().filter(HeldLease::isResent).count() >= options.concurrency()) {
      return 0;
    }
    int slots = Math.min(freeSlots(), options.maxSlotsPerCall());
    reserved += slots;
    return slots;
  }

  /** Returns the number of slots that neither a handler nor a claim has. A stuck handler that may be replaced has none. */
  private int freeSlots() {
    return options.concurrency() + Math.min(stuck, options.maxStuck()) - runs.size() - reserved;
  }

  /** Ends the reservation of slots: their claim was answered. */
  void returnSlots(int slots) {
    reserved -= slots;
    wakePollers();
  }

  /** True if a claim is useful. The call that settles endings claims the next items itself. */
  boolean mayClaim() {
    return freeSlots() > 0 && !settling && endings.isEmpty();
  }

  /** Wakes the pollers only for a claim: while endings are to be settled, that would cost more than a short handler. */
  private void wakePollers() {
    if (mayClaim()) {
      slotsFree.signalAll();
    }
  }

  /** Starts handlers for the leases of a claim, for which `slots` slots were reserved. */
  void accept(List<Lease> messages, int slots, long sentAt, long arrivedAt) {
    List<HeldLease> leases = new ArrayList<>();
    long now = Clock.now();
    for (Lease message : messages) {
      HeldLease lease = new HeldLease(message, sentAt, arrivedAt);
      // A repeated response can have a lease that the worker holds already.
      if (held.putIfAbsent(lease.id, lease) == null) {
        emit(events.of(Event.Name.CLAIMED, lease.item));
        if (now >= lostAt(lease)) {
          // The process was suspended since the response arrived.
          lose(lease, endedReason());
          continue;
        }
        leases.add(lease);
        nextBeat = Math.min(nextBeat, now + (lease.unconfirmed ? 0 : lease.beatPeriod()));
        wakeKeeper(Math.min(nextBeat, Math.min(lostAt(lease), lease.doubtAt())));
      }
    }
    if (!takesItems) {
      leases.forEach(lease -> settle(Ending.released(lease, null)));
      returnSlots(slots);
      return;
    }
    int size = options.slotSize();
    List<Run> started = new ArrayList<>();
    for (int first = 0; first < leases.size(); first += size) {
      int last = Math.min(first + size, leases.size());
      Run run = new Run(this, size == 1 ? List.of(leases.get(first)) : List.copyOf(leases.subList(first, last)));
      runs.add(run);
      started.add(run);
    }
    effects.add(() -> start.accept(started));
    returnSlots(slots);
  }

  /**
   * Begins a run in the thread of its handler. False: its leases were lost or released while it waited for the thread. Must not be
   * called with the lock.
   */
  boolean begin(Run run) {
    lock.lock();
    try {
      if (!runs.contains(run)) {
        returnSlots(1);
        return false;
      }
      run.startedAt = Clock.now();
      if (options.timeLimit() != null) {
        wakeKeeper(run.startedAt + Values.nanos(options.timeLimit()));
      }
    } finally {
      lock.unlock();
    }
    for (HeldLease lease : run.leases) {
      events.emit(events.of(Event.Name.STARTED, lease.item));
    }
    return true;
  }

  /** Takes no further items, and releases those whose handlers have not begun. */
  void stop() {
    takesItems = false;
    slotsFree.signalAll();
    List.copyOf(runs).stream().filter(run -> !run.hasBegun()).forEach(this::refuseStart);
  }

  /** Cancels all handlers, because the worker stops. */
  void cancelAll() {
    List.copyOf(runs).forEach(run -> cancel(run, Cause.SHUTDOWN, null));
  }

  /** Drops the leases of handlers that did not return. They expire. Returns the number of the handlers. */
  int leaveHandlers() {
    for (Run run : runs) {
      run.leases.stream().filter(lease -> lease.phase == HeldLease.Phase.RUNNING).forEach(this::drop);
    }
    return runs.size();
  }

  /** Releases the leases of a run whose handler has not begun. The caller gives its slot back later. */
  void refuseStart(Run run) {
    if (runs.remove(run)) {
      reserved++;
    }
    run.leases.forEach(lease -> settle(Ending.released(lease, null)));
    changed.signalAll();
  }

  /** Takes the endings of a handler that has returned. Endings of leases that are done already are dropped. */
  void end(Run run, List<Ending> results) {
    // First, because a handler that has returned is not cancelled.
    runs.remove(run);
    long now = Clock.now();
    for (HeldLease lease : run.leases) {
      // The process may have been stopped for so long that the keeper has not looked yet.
      if (lease.phase == HeldLease.Phase.RUNNING && now >= lostAt(lease)) {
        lose(lease, endedReason());
      }
    }
    gathering.note(now - run.startedAt);
    for (Ending result : results) {
      settle(result);
    }
    if (run.stuck) {
      stuck--;
    }
    wakePollers();
    changed.signalAll();
  }

  /** Passes an ending to the settler, unless the lease has ended already. */
  void settle(Ending ending) {
    if (ending.lease().phase == HeldLease.Phase.RUNNING) {
      ending.lease().phase = HeldLease.Phase.ENDED;
      ending.lease().released = ending.release() != null;
      ByteString checkpoint = ending.lease().checkpoint;
      endings.add(ending.withCheckpoint(checkpoint == null || isRefused(checkpoint.size()) ? null : checkpoint));
      endingsReady.signal();
    }
  }

  /** Queues endings again whose pause after a lock is over, or all. */
  void requeueLocked(boolean all) {
    long now = Clock.now();
    Predicate<Ending> isDue = ending -> all || ending.lease().sendAt <= now;
    locked.stream().filter(isDue).forEach(endings::add);
    locked.removeIf(isDue);
  }

  /** Forgets a lease. */
  void drop(HeldLease lease) {
    lease.phase = HeldLease.Phase.DONE;
    held.remove(lease.id);
  }

  /** Returns the reason of a lease that the worker gives up by its own clock. */
  String endedReason() {
    return options.heartbeat() ? "no heartbeat was answered in time" : "the lease has ended";
  }

  /**
   * Returns the moment at which the worker gives a lease up. With heartbeats that is early enough for the handler to stop before
   * another worker starts. Without them a handler has until the deadline to end.
   */
  long lostAt(HeldLease lease) {
    return options.heartbeat() ? lease.deadline - lease.duration / 10 : lease.deadline;
  }

  /** Drops a lease that was lost, and cancels its handler if it has no other lease. */
  void lose(HeldLease lease, String reason) {
    String known = reason.isEmpty() ? null : reason;
    emit(events.of(Event.Name.LOST, lease.item).withReason(known));
    noteLoss(lease, known == null ? "the broker has ended the lease" : known);
    drop(lease);
    Run run = lease.run;
    if (run != null && runs.contains(run) && run.leases.stream().allMatch(other -> other.phase == HeldLease.Phase.DONE)) {
      cancel(run, Cause.LEASE_LOST, known);
    }
  }

  /** Notes that another worker may process an item again. The items that a change loses are logged together. */
  void noteLoss(HeldLease lease, String reason) {
    boolean isProcessed = lease.run != null && !runs.contains(lease.run) && !lease.released;
    String text = isProcessed ? "processed, but another worker may process it again" : "the lease has ended before the handler";
    if (losses.isEmpty()) {
      Map<String, List<Item>> noted = losses;
      effects.add(() -> noted.forEach(this::logLoss));
    }
    losses.computeIfAbsent(text + ": " + reason, loss -> new ArrayList<>()).add(lease.item);
  }

  private void logLoss(String loss, List<Item> items) {
    String names = items.stream().limit(MAX_NAMED).map(item -> item.key() + " (attempt " + item.attempt() + ")").collect(Collectors.joining(", "));
    int left = items.size() - MAX_NAMED;
    String others = left > 0 ? " and " + left + (left > 1 ? " others" : " other") : "";
    options.logger().log(
        System.Logger.Level.WARNING, "queue {0}: {1} {2}: {3}", options.queue(), items.size() > 1 ? "items" : "item", names + others, loss);
  }

  /** Cancels a handler, unless it is cancelled already. */
  void cancel(Run run, Cause cause, String reason) {
    if (run.cause != null) {
      return;
    }
    if (!run.hasBegun()) {
      refuseStart(run);
      return;
    }
    run.cause = cause;
    run.cancelledAt = Clock.now();
    for (HeldLease lease : run.leases) {
      emit(events.of(Event.Name.CANCELLED, lease.item).withCause(cause).withReason(reason));
    }
    effects.add(() -> run.context.cancel(cause));
    wakeKeeper();
  }

  void saveCheckpoint(HeldLease lease, byte[] checkpoint) {
    // A later one could replace the last one of the handler, for its next attempt.
    if (lease.phase != HeldLease.Phase.RUNNING) {
      return;
    }
    if (checkpoint.length > MAX_CHECKPOINT_BYTES) {
      refuseCheckpoint(lease, checkpoint.length, "a queue stores at most " + MAX_CHECKPOINT_BYTES + " bytes");
      return;
    }
    lease.checkpoint = ByteString.copyFrom(checkpoint);
    lease.saved++;
  }

  /** Returns whether a checkpoint of this many bytes is left out now. */
  boolean isRefused(int bytes) {
    return bytes >= refusedCheckpoint && Clock.now() < checkpointsRefusedUntil;
  }

  /** Leaves out a checkpoint of this many bytes, which was refused, and longer ones, from calls to come. */
  void refuseCheckpoint(HeldLease lease, int bytes, String reason) {
    if (isRefused(bytes)) {
      return;
    }
    refusedCheckpoint = bytes;
    checkpointsRefusedUntil = Clock.now() + CHECKPOINT_PAUSE;
    String text = "queue {0}: the checkpoint of item {1} is left out, and so are others of {2} bytes or more for 60 s: {3}";
    effects.add(() -> options.logger().log(System.Logger.Level.ERROR, text, options.queue(), lease.item.key(), bytes, reason));
  }

  /**
   * Logs that an ending was refused, by the broker or by a proxy. The broker stores the reason too, but only the last one of each
   * item.
   */
  void warnOfRefusal(HeldLease lease, String rpc, String reason) {
    String verb = rpc.toLowerCase(Locale.ROOT);
    effects.add(
        () -> options.logger().log(System.Logger.Level.WARNING, "ending refused: {0} item {1}: {2}", verb, lease.item.key(), reason));
  }

  /** The nanoseconds without an answer after which the worker is not healthy. */
  long longestLease() {
    long longest = options.lease() == null ? 0 : Values.nanos(options.lease());
    for (HeldLease lease : held.values()) {
      longest = Math.max(longest, lease.duration);
    }
    return longest == 0 ? DEFAULT_LEASE : longest;
  }
}
