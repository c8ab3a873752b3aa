package com.example.leasebroker;

import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * The threads of handlers. They wake each other one after the other, and a thread that is free takes the next handler by
 * itself. So a few threads run all handlers that are shorter than the waking of a thread, and longer ones run side by side.
 */
final class HandlerThreads implements Executor {
  private final ExecutorService threads = Executors.newCachedThreadPool(Threads.factory("lease-broker-handler"));
  private final Queue<Runnable> waiting = new ConcurrentLinkedQueue<>();

  /** True while a thread was asked for that has not begun. It looks for handlers that wait, so one is enough. */
  private final AtomicBoolean waking = new AtomicBoolean();

  @Override
  public void execute(Runnable handler) {
    waiting.add(handler);
    try {
      wake();
    } catch (RuntimeException | Error refused) {
      // Unless a thread has taken the handler meanwhile.
      if (waiting.remove(handler)) {
        throw refused;
      }
    }
  }

  /** Lets the threads end that have no handler. */
  void shutdown() {
    threads.shutdown();
  }

  private void wake() {
    if (waiting.isEmpty() || !waking.compareAndSet(false, true)) {
      return;
    }
    try {
      threads.execute(this::work);
    } catch (RuntimeException | Error refused) {
      waking.set(false);
      throw refused;
    }
  }

  private void work() {
    waking.set(false);
    for (Runnable handler = waiting.poll(); handler != null; handler = waiting.poll()) {
      try {
        wake();
      } catch (RuntimeException | Error refused) {
        // No thread can be added now. The handlers that wait are run by the threads that there are.
      }
      handler.run();
    }
  }
}
