package com.example.leasebroker;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.stream.Stream;

/** The run of a handler: whether it is cancelled, how long its lease lasts, and checkpoints. */
public final class Context {
  private final State state;
  private final Run run;

  // These are guarded by this object, and not by the worker's lock.
  private final List<Runnable> onCancel = new ArrayList<>();
  private Thread thread;
  private Cause cause;

  Context(State state, Run run) {
    this.state = state;
    this.run = run;
  }

  /** Makes a context for the test of a handler, with leases of a minute. Without items it has one with the key "1". */
  public static Context of(Item... items) {
    Options options = Options.of(Queue.of("test", (item, context) -> null), "test", System.getLogger("com.example.leasebroker"));
    State state = new State(options, new EventLog("test", null, options.logger()));
    Item[] leased = items.length > 0 ? items : new Item[] {Item.of("1", Map.of())};
    return new Run(state, Stream.of(leased).map(HeldLease::new).toList()).context;
  }

  /** Makes a context for the test of a handler that is cancelled. After {@link Cause#LEASE_LOST} it holds no lease. */
  public static Context cancelled(Cause cause, Item... items) {
    Context context = of(items);
    if (cause == Cause.LEASE_LOST) {
      context.run.leases.forEach(lease -> lease.phase = HeldLease.Phase.DONE);
    }
    context.cancel(cause);
    return context;
  }

  /** Returns the reason for which the handler shall stop. Empty: it shall continue. */
  public synchronized Optional<Cause> cause() {
    return Optional.ofNullable(cause);
  }

  /** True if the handler shall stop. Its thread was also interrupted. */
  public synchronized boolean isCancelled() {
    return cause != null;
  }

  /**
   * Throws if the handler shall stop. Call it between two steps of long work.
   *
   * @throws CancelledException if the handler is cancelled
   */
  public synchronized void check() {
    if (cause != null) {
      throw new CancelledException(cause);
    }
  }

  /** Runs an action when the handler is cancelled, in a thread of its own, or now if it already is. */
  public void onCancel(Runnable action) {
    synchronized (this) {
      if (cause == null) {
        onCancel.add(action);
        return;
      }
    }
    action.run();
  }

  /** Returns the time until the lease ends if no further heartbeat is answered. In a batch, the shortest. */
  public Duration timeLeft() {
    return state.read(() -> Duration.ofNanos(run.leases.stream().mapToLong(lease -> lease.deadline).min().orElseThrow() - Clock.now()));
  }

  /** True if no heartbeat was answered for half of a lease. */
  public boolean inDoubt() {
    return state.read(() -> run.leases.stream().anyMatch(lease -> lease.inDoubt));
  }

  /** False if the lease of the item was lost. Handlers of batches ask it before each item. */
  public boolean isHeld(Item item) {
    return state.read(() -> lease(item).phase == HeldLease.Phase.RUNNING);
  }

  /**
   * Keeps bytes that say how far the work on the item has come. The next heartbeat stores them on the row, or the call that
   * fails or releases the item. The next lease of the item has them as {@link Item#checkpoint}. Empty: removes the checkpoint.
   *
   * <p>If the queue has no checkpoints, or only shorter ones, the worker logs that and leaves the checkpoint out.
   */
  public void checkpoint(byte[] checkpoint) {
    if (run.leases.size() != 1) {
      throw new IllegalStateException("the handler has a batch: pass the item of the checkpoint");
    }
    save(run.leases.get(0), checkpoint);
  }

  /** Keeps a checkpoint of one item of a batch. */
  public void checkpoint(Item item, byte[] checkpoint) {
    save(lease(item), checkpoint);
  }

  private void save(HeldLease lease, byte[] checkpoint) {
    state.update(() -> state.saveCheckpoint(lease, checkpoint));
  }

  /** Returns the W3C trace context of the lease. In a batch, of the first one. */
  public String traceParent() {
    return run.leases.get(0).item.traceParent();
  }

  /** Returns the log of the worker. */
  public System.Logger logger() {
    return state.options.logger();
  }

  private HeldLease lease(Item item) {
    for (HeldLease lease : run.leases) {
      if (lease.item == item) {
        return lease;
      }
    }
    throw new NoSuchElementException("item " + item.key() + " is not an item of this handler");
  }

  /** The handler begins in this thread. A cancellation interrupts it from now on. */
  synchronized void begin() {
    thread = Thread.currentThread();
    if (cause != null) {
      thread.interrupt();
    }
  }

  /** The handler has returned. A later cancellation must not interrupt the next user of the thread. */
  synchronized void end() {
    thread = null;
    Thread.interrupted();
  }

  /** True if the handler has called this method. */
  synchronized boolean isRunningHere() {
    return thread == Thread.currentThread();
  }

  /** Sets the cause, interrupts the handler, and runs the actions that wait for its cancellation. */
  void cancel(Cause reason) {
    List<Runnable> actions;
    synchronized (this) {
      cause = reason;
      if (thread != null) {
        thread.interrupt();
      }
      actions = List.copyOf(onCancel);
      onCancel.clear();
    }
    if (!actions.isEmpty()) {
      // The actions are the program's. They may block, and no thread of the worker waits for them.
      Threads.start("lease-broker-on-cancel", () -> actions.forEach(this::runAction));
    }
  }

  private void runAction(Runnable action) {
    try {
      action.run();
    } catch (Throwable error) {
      ErrorLog.log(logger(), "an action of onCancel threw an exception", error);
    }
  }

  /** Returns the stack of the handler's thread. */
  synchronized String stack() {
    if (thread == null) {
      return "";
    }
    StringBuilder text = new StringBuilder(thread.getName());
    for (StackTraceElement frame : thread.getStackTrace()) {
      text.append("\n\tat ").append(frame);
    }
    return text.toString();
  }
}
