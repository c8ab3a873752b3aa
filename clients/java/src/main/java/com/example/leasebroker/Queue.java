package com.example.leasebroker;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.Executor;
import java.util.function.Consumer;

/** A queue of a worker: its name, its handler and its options. */
public final class Queue {
  final String name;
  final int batch;
  final BatchHandler handler;
  int concurrency = 1;
  Duration lease;
  boolean heartbeat = true;
  Duration timeLimit;
  Duration wait = Duration.ofSeconds(20);
  List<String> groups = List.of();
  Duration stuckAfter = Duration.ofSeconds(30);
  Integer maxStuck;
  Consumer<Event> onEvent;
  Executor executor;
  final List<Interceptor> interceptors = new ArrayList<>();

  private Queue(String name, int batch, BatchHandler handler) {
    this.name = Objects.requireNonNull(name, "name");
    this.batch = batch;
    this.handler = Objects.requireNonNull(handler, "handler");
  }

  /** A queue whose handler gets one item. */
  public static Queue of(String name, Handler handler) {
    return new Queue(name, 0, Runner.inBatches(Objects.requireNonNull(handler, "handler")));
  }

  /** A queue whose handler gets up to `batch` items, 1 to 1,000. The concurrency is then the number of batches. */
  public static Queue ofBatches(String name, int batch, BatchHandler handler) {
    if (batch < 1) {
      throw new IllegalArgumentException("batch is " + batch + "; it must be at least 1");
    }
    return new Queue(name, batch, handler);
  }

  /** The number of handlers that run at the same time. Default: 1. */
  public Queue concurrency(int handlers) {
    concurrency = handlers;
    return this;
  }

  /** The duration of the leases. Default: the queue's. */
  public Queue lease(Duration duration) {
    lease = duration;
    return this;
  }

  /**
   * Turns heartbeats on or off. Default: on. Without them the lease is all the time that a handler has: after half of it the
   * handler is cancelled with {@link Cause#TIME_LIMIT}.
   */
  public Queue heartbeat(boolean on) {
    heartbeat = on;
    return this;
  }

  /**
   * The longest time that a handler may run. It is then cancelled with {@link Cause#TIME_LIMIT}, and its item fails unless the
   * handler returns within 5 s. Default: no limit.
   */
  public Queue timeLimit(Duration limit) {
    timeLimit = limit;
    return this;
  }

  /** The time that a claim waits for items, up to 60 s. Default: 20 s. */
  public Queue wait(Duration duration) {
    wait = Objects.requireNonNull(duration, "wait");
    return this;
  }

  /** The groups whose items are claimed, up to 100, each in the form of {@link Item#key}. Default: any item is claimed. */
  public Queue groups(List<String> values) {
    groups = List.copyOf(values);
    return this;
  }

  /** The time after its cancellation at which a handler that still runs is reported. Default: 30 s. */
  public Queue stuckAfter(Duration duration) {
    stuckAfter = Objects.requireNonNull(duration, "stuckAfter");
    return this;
  }

  /**
   * The number of stuck handlers that are replaced by another one. If more are stuck, the worker claims no more items and is
   * not healthy. Default: as the concurrency.
   */
  public Queue maxStuck(int handlers) {
    maxStuck = handlers;
    return this;
  }

  /** Is called with every event, in the thread in which it happens. It must not block. Default: none. */
  public Queue onEvent(Consumer<Event> observer) {
    onEvent = observer;
    return this;
  }

  /** Adds an interceptor. The first one is outermost. */
  public Queue intercept(Interceptor interceptor) {
    interceptors.add(Objects.requireNonNull(interceptor, "interceptor"));
    return this;
  }

  /**
   * Runs the handlers. If it refuses one, the item is released. If it was shut down, the worker stops with an error. If it runs a
   * handler in the thread that calls it, that is a thread of the default pool, so no other handler waits for it. Default: a pool
   * with one daemon thread per running handler. With Java 21, an executor with a virtual thread per task is another choice.
   */
  public Queue executor(Executor value) {
    executor = value;
    return this;
  }
}
