package com.example.leasebroker;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;

/** The part of a worker that serves one queue: state, handlers, and the threads that claim, settle and keep leases. */
final class QueueWorker {
  /** The time that a cancelled handler has to return when the worker stops. */
  private static final long CANCEL_GRACE = 5 * Clock.SECOND;

  /** The time that the last settling calls have after that. */
  private static final long SETTLE_GRACE = 5 * Clock.SECOND;

  /** The longest time of a stop after its grace, with a reserve for busy hosts. */
  static final long LONGEST_END = CANCEL_GRACE + SETTLE_GRACE + 3 * Clock.SECOND;

  /** The time for which a slot is idle after the executor has refused a handler. */
  private static final long REFUSED_START_PAUSE = Clock.SECOND;

  private static final long RESTART_PAUSE = Clock.SECOND / 2;

  /** What the queues of a worker share. Heartbeats have a connection of their own. */
  record Connections(Transport calls, Transport heartbeats, TokenSource token, ConnectionHealth health) {}

  final Options options;
  final EventLog events;
  final State state;

  /** The number of handlers that did not return before the stop. */
  volatile int left;

  private final Runner runner;

  /** The ends of the threads. */
  private final List<CompletableFuture<Void>> threads = new ArrayList<>();

  private final List<CompletableFuture<Void>> pollerEnds = new ArrayList<>();
  private Consumer<RuntimeException> onFatal;
  private ExecutorService calls;
  private HandlerThreads handlers;
  private Poller poller;
  private Settler settler;
  private Keeper keeper;
  private CompletableFuture<Void> settlerEnd;
  private CompletableFuture<Void> keeperEnd;

  QueueWorker(Options options, BatchHandler handler) {
    this.options = options;
    events = new EventLog(options.queue(), options.onEvent(), options.logger());
    state = new State(options, events);
    runner = new Runner(state, handler);
  }

  void start(Connections connections, Consumer<RuntimeException> fatal) {
    onFatal = fatal;
    calls = Executors.newCachedThreadPool(Threads.factory("lease-broker-call"));
    // An executor too is called in these threads, because it may run the handler in the thread that calls it.
    handlers = new HandlerThreads(options.executor() == null ? runner::run : run -> start(run, options.executor()), this::refuseStart);
    state.start = handlers::start;
    Caller caller = new Caller(connections.calls, connections.token, connections.health::note, this::onRetry);
    Caller keeperCaller = new Caller(connections.heartbeats, connections.token, connections.health::note, this::onRetry);
    poller = new Poller(state, caller, connections.health, onFatal);
    settler = new Settler(state, caller, calls, onFatal);
    keeper = new Keeper(state, keeperCaller, calls, onFatal);
    settlerEnd = startThread("lease-broker-settler", settler::run);
    keeperEnd = startThread("lease-broker-keeper", keeper::run);
    for (int i = 0; i < options.pollers(); i++) {
      pollerEnds.add(startThread("lease-broker-poller", poller::run));
    }
  }

  /** False if too many handlers are stuck, or if a thread has ended. */
  boolean isHealthy() {
    return state.read(() -> state.stuck <= options.maxStuck()) && threads.stream().noneMatch(CompletableFuture::isDone);
  }

  /** True if a handler or the observer has called this method. The stop of the worker waits for both. */
  boolean isCaller() {
    return events.isObserving() || state.read(() -> state.runs.stream().anyMatch(run -> run.context.isRunningHere()));
  }

  /** Stops in order. `hurry` cancels the handlers at once. */
  void stop(long grace, BooleanSupplier hurry) {
    long settleUntil = Clock.now() + grace + CANCEL_GRACE + SETTLE_GRACE;
    events.emit(events.of(Event.Name.STOPPING));
    state.update(state::stop);
    CompletableFuture.delayedExecutor(grace + CANCEL_GRACE + SETTLE_GRACE, TimeUnit.NANOSECONDS, Runnable::run).execute(settler::giveUp);
    poller.stop();
    pollerEnds.forEach(CompletableFuture::join);
    CompletableFuture<Void> released = CompletableFuture.runAsync(() -> poller.releaseAbandoned(false, settleUntil), calls);
    waitForHandlers(grace, hurry);
    state.update(state::cancelAll);
    waitForHandlers(CANCEL_GRACE, () -> false);
    state.update(
        () -> {
          left = state.leaveHandlers();
          state.settledAll = true;
          state.endingsReady.signal();
        });
    settlerEnd.join();
    keeper.close();
    keeperEnd.join();
    released.join();
    poller.releaseAbandoned(true, settleUntil);
    calls.shutdown();
    handlers.shutdown();
    events.emit(events.of(Event.Name.STOPPED));
  }

  /** Starts a handler in the executor of the program. */
  private void start(Run run, Executor executor) {
    try {
      executor.execute(() -> runner.run(run));
    } catch (RuntimeException | Error refused) {
      refuseStart(run, refused);
      if (executor instanceof ExecutorService service && service.isShutdown() && state.read(() -> state.takesItems)) {
        // It refuses every handler from now on.
        state.update(state::stop);
        onFatal.accept(new IllegalStateException("the executor of the handlers was shut down", refused));
      }
    }
  }

  /** Releases the items of a handler that no thread can run, and leaves the slot idle for a moment. */
  private void refuseStart(Run run, Throwable refused) {
    options.logger().log(
        System.Logger.Level.WARNING, "the executor refuses a handler, item " + run.leases.get(0).item.key() + " is released", refused);
    state.update(() -> state.refuseStart(run));
    CompletableFuture.delayedExecutor(REFUSED_START_PAUSE, TimeUnit.NANOSECONDS, calls)
        .execute(() -> state.update(() -> state.returnSlots(1)));
  }

  private CompletableFuture<Void> startThread(String name, Runnable part) {
    CompletableFuture<Void> end = Threads.run(name, () -> guard(part));
    threads.add(end);
    return end;
  }

  /**
   * Runs a part of the worker. An exception that it does not expect stops the worker, in order. The part goes on until then:
   * leases are kept, and endings are settled.
   */
  private void guard(Runnable part) {
    while (true) {
      try {
        part.run();
        return;
      } catch (RuntimeException | Error unexpected) {
        ErrorLog.log(options.logger(), "a thread of the worker has failed", unexpected);
        state.update(() -> state.takesItems = false);
        onFatal.accept(unexpected instanceof RuntimeException known ? known : new IllegalStateException(unexpected));
        LockSupport.parkNanos(RESTART_PAUSE);
      }
    }
  }

  /** Waits until all handlers have returned, the time is over, or `stopEarly` is true. */
  private void waitForHandlers(long limit, BooleanSupplier stopEarly) {
    long until = Clock.now() + limit;
    state.read(
        () -> {
          long rest = until - Clock.now();
          while (!state.runs.isEmpty() && !stopEarly.getAsBoolean() && rest > 0) {
            try {
              rest = state.changed.awaitNanos(rest);
            } catch (InterruptedException interrupted) {
              Thread.currentThread().interrupt();
              return null; // The caller wants an end: the handlers are cancelled now.
            }
            rest = until - Clock.now();
          }
          return null;
        });
  }

  private void onRetry(Caller.Retrying retry) {
    Failure failure = retry.failure();
    String reason = failure.reason().isEmpty() ? null : failure.reason();
    Duration wait = Duration.ofNanos(retry.waitNanos());
    events.emit(
        events.of(Event.Name.RETRY)
            .withReason(reason)
            .withError(failure.message())
            .withRetry(new Event.Retrying(retry.rpc(), failure.code().name(), retry.attempt(), wait)));
  }
}
