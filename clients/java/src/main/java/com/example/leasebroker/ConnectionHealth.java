package com.example.leasebroker;

import io.grpc.Status;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * The health of the calls to the broker: the events CONNECTED and DISCONNECTED, the warnings while no call is answered, and one
 * half of {@link Worker#health}.
 */
final class ConnectionHealth {
  private final Consumer<Event> events;
  private final String address;
  private final System.Logger logger;

  /** The nanoseconds without an answer before the first warning. Tests have other times. */
  long firstWarning = 2 * Clock.SECOND;

  /** The nanoseconds between two warnings. */
  long nextWarning = 30 * Clock.SECOND;

  private boolean connected;

  /** The time since which no call was answered. */
  private long failingSince = Clock.NEVER;

  private String cause;
  private boolean hasWarned;
  private boolean closed;

  ConnectionHealth(String address, System.Logger logger, Consumer<Event> events) {
    this.address = address;
    this.logger = logger;
    this.events = events;
  }

  /** Expects the first answer from now on. The first attempt can take long to fail. */
  synchronized void start() {
    begin("no answer yet");
  }

  /** Takes the result of an attempt. An error of the broker is an answer, unless it says that its database is away. */
  void note(Failure failure) {
    boolean answered = failure == null || !failure.reason().isEmpty() && failure.code() != Status.Code.UNAVAILABLE;
    boolean changed;
    boolean warned;
    long seconds;
    synchronized (this) {
      changed = answered != connected;
      connected = answered;
      warned = hasWarned;
      seconds = seconds();
      if (answered) {
        failingSince = Clock.NEVER;
        hasWarned = false;
      } else {
        begin(failure.text());
      }
    }
    if (answered && warned) {
      // A warning too: a log that shows the problem also shows its end.
      logger.log(System.Logger.Level.WARNING, "the broker at {0} answers again after {1} s", address, Long.toString(seconds));
    }
    if (changed) {
      events.accept(
          answered ? Event.of(Event.Name.CONNECTED, null, null) : Event.of(Event.Name.DISCONNECTED, null, null).withError(failure.message()));
    }
  }

  /** True if the last call was answered. */
  synchronized boolean answers() {
    return failingSince == Clock.NEVER;
  }

  /** Returns the nanoseconds for which no call has been answered. 0: the last one was. */
  synchronized long failingFor() {
    return failingSince == Clock.NEVER ? 0 : Clock.now() - failingSince;
  }

  /** Ends the warnings. */
  synchronized void close() {
    closed = true;
  }

  private void begin(String newCause) {
    cause = newCause;
    if (failingSince == Clock.NEVER) {
      failingSince = Clock.now();
      warnAfter(firstWarning, failingSince);
    }
  }

  private void warnAfter(long wait, long since) {
    CompletableFuture.delayedExecutor(wait, TimeUnit.NANOSECONDS).execute(() -> warn(since));
  }

  private void warn(long since) {
    String seconds;
    String latest;
    synchronized (this) {
      if (closed || failingSince != since) {
        return; // The outage has ended.
      }
      hasWarned = true;
      seconds = Long.toString(seconds());
      latest = cause;
      warnAfter(nextWarning, since);
    }
    logger.log(System.Logger.Level.WARNING, "calls to the broker at {0} have failed for {1} s: {2}", address, seconds, latest);
  }

  /** Returns the rounded seconds for which no call has been answered. */
  private long seconds() {
    return (failingFor() + Clock.SECOND / 2) / Clock.SECOND;
  }
}
