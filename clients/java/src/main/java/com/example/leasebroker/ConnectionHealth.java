package com.example.leasebroker;

import io.grpc.Status;
import java.util.function.Consumer;

/** Whether the broker answers: the events CONNECTED and DISCONNECTED, and one half of {@link Worker#health}. */
final class ConnectionHealth {
  private final Consumer<Event> events;
  private boolean connected;

  /** The time of the first attempt that failed since the last one that was answered. */
  private long failingSince = Clock.NEVER;

  ConnectionHealth(Consumer<Event> events) {
    this.events = events;
  }

  /** Takes the result of an attempt. An error of the broker is an answer, unless it says that its database is away. */
  void note(Failure failure) {
    boolean answered = failure == null || !failure.reason().isEmpty() && failure.code() != Status.Code.UNAVAILABLE;
    boolean changed;
    synchronized (this) {
      changed = answered != connected;
      connected = answered;
      if (answered) {
        failingSince = Clock.NEVER;
      } else if (failingSince == Clock.NEVER) {
        failingSince = Clock.now();
      }
    }
    if (changed) {
      events.accept(
          answered ? Event.of(Event.Name.CONNECTED) : Event.of(Event.Name.DISCONNECTED).withError(failure.message()));
    }
  }

  /** Returns the nanoseconds for which no call has been answered. 0: the last one was. */
  synchronized long failingFor() {
    return failingSince == Clock.NEVER ? 0 : Clock.now() - failingSince;
  }
}
