package com.example.leasebroker;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/** Keeps the events of a worker and lets tests wait for them. */
final class Watcher implements Consumer<Event> {
  /** The disk of a busy machine can take half a second for each commit of the broker. */
  private static final long SECONDS = 120;

  private final List<Event> events = new ArrayList<>();

  @Override
  public synchronized void accept(Event event) {
    events.add(event);
    notifyAll();
  }

  synchronized long count(Event.Name name) {
    return events.stream().filter(event -> event.name() == name).count();
  }

  synchronized Event find(Event.Name name) {
    return events.stream().filter(event -> event.name() == name).findFirst().orElseThrow();
  }

  /** Waits for a latch, also if the thread is interrupted meanwhile. */
  static void await(CountDownLatch latch) {
    boolean interrupted = false;
    while (latch.getCount() > 0) {
      try {
        latch.await();
      } catch (InterruptedException again) {
        interrupted = true;
      }
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  /** Waits until an event has happened `count` times. */
  synchronized void await(Event.Name name, int count) throws InterruptedException {
    long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(SECONDS);
    while (count(name) < count) {
      long left = TimeUnit.NANOSECONDS.toMillis(until - System.nanoTime());
      if (left <= 0) {
        throw new AssertionError("after " + SECONDS + " s there are " + count(name) + " events " + name + " and not " + count);
      }
      wait(left);
    }
  }
}
