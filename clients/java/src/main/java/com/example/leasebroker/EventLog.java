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

  /** True at its only index while the observer runs in the thread. To read the thread's variable costs less than to set it. */
  private final ThreadLocal<boolean[]> observing = ThreadLocal.withInitial(() -> new boolean[1]);

  private volatile Consumer<Event> observer;

  EventLog(String queue, Consumer<Event> observer, System.Logger logger) {
    this.queue = queue;
    this.observer = observer;
    this.logger = logger;
  }

  /** Makes an event of the queue. */
  Event of(Event.Name name) {
    return of(name, null);
  }

  /** Makes an event about an item. */
  Event of(Event.Name name, Item item) {
    return Event.of(name, queue, item);
  }

  /** Reports an event. Must be called without the worker's lock: the observer may wait for another thread that needs it. */
  void emit(Event event) {
    counters.incrementAndGet(event.name().ordinal());
    Consumer<Event> current = observer;
    if (current == null) {
      return;
    }
    boolean[] flag = observing.get();
    flag[0] = true;
    try {
      current.accept(event);
    } catch (Throwable error) {
      observer = null;
      ErrorLog.log(logger, "the observer threw an exception and is not called again", error);
    } finally {
      flag[0] = false;
    }
  }

  /** True if the observer has called this method. */
  boolean isObserving() {
    return observing.get()[0];
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
