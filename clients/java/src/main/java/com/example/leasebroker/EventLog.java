package com.example.leasebroker;

import java.util.EnumMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.function.Consumer;

/** Counts events and calls the observer. An observer that throws is logged once and not called again. */
final class EventLog {
  private final String queue;
  private final System.Logger logger;
  private final AtomicLongArray counters = new AtomicLongArray(Event.Name.values().length);
  private final ThreadLocal<Boolean> observing = ThreadLocal.withInitial(() -> false);
  private volatile Consumer<Event> observer;

  EventLog(String queue, Consumer<Event> observer, System.Logger logger) {
    this.queue = queue;
    this.observer = observer;
    this.logger = logger;
  }

  /** Reports an event. Must be called without the worker's lock: the observer may wait for another thread that needs it. */
  void emit(Event event) {
    counters.incrementAndGet(event.name().ordinal());
    Consumer<Event> current = observer;
    if (current == null) {
      return;
    }
    observing.set(true);
    try {
      current.accept(event.withQueue(queue));
    } catch (Throwable error) {
      observer = null;
      ErrorLog.log(logger, "the observer threw an exception and is not called again", error);
    } finally {
      // To remove the value and make another one would cost more than the rest of the event.
      observing.set(false);
    }
  }

  /** True if the observer has called this method. */
  boolean isObserving() {
    return observing.get();
  }

  Map<Event.Name, Long> counts() {
    Map<Event.Name, Long> counts = new EnumMap<>(Event.Name.class);
    for (Event.Name name : Event.Name.values()) {
      if (counters.get(name.ordinal()) > 0) {
        counts.put(name, counters.get(name.ordinal()));
      }
    }
    return counts;
  }
}
