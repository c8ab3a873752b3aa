package com.example.leasebroker;

import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.BiConsumer;
import java.util.function.Consumer;

/**
 * The threads in which handlers run, or are passed to the executor of the program. They wake each other one after the other,
 * and a thread that is free takes the next handler by itself. So a few threads run all handlers that are shorter than the waking
 * of a thread, and longer ones run side by side.
 */
final class HandlerThreads {
  private final ExecutorService threads = Executors.newCachedThreadPool(Threads.factory("lease-broker-handler"));
  private final Queue<Run> waiting = new ConcurrentLinkedQueue<>();
  private final Consumer<Run> handler;
  private final BiConsumer<Run, Throwable> onRefused;

  /** True while a thread was asked for that has not begun. It looks for handlers that wait, so one is enough. */
  private final AtomicBoolean waking = new AtomicBoolean();

  /** `onRefused` gets a run for which there is no thread, because none can be made. */
  HandlerThreads(Consumer<Run> handler, BiConsumer<Run, Throwable> onRefused) {
    this.handler = handler;
    this.onRefused = onRefused;
  }

  void start(List<Run> runs) {
    waiting.addAll(runs);
    try {
      wake();
    } catch (RuntimeException | Error refused) {
      // Unless another thread has taken it meanwhile.
      runs.stream().filter(waiting::remove).forEach(run -> onRefused.accept(run, refused));
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
    for (Run run = waiting.poll(); run != null; run = waiting.poll()) {
      try {
        wake();
      } catch (RuntimeException | Error refused) {
        // No further thread can be made now. Those that there are run the handlers that wait.
      }
      handler.accept(run);
    }
  }
}
