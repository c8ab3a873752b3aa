package com.example.leasebroker;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.atomic.AtomicInteger;

/** Threads of the library. All are daemons: a handler that never returns does not keep the process. */
final class Threads {
  private Threads() {}

  static Thread start(String name, Runnable run) {
    Thread thread = new Thread(run, name);
    thread.setDaemon(true);
    thread.start();
    return thread;
  }

  static ThreadFactory factory(String name) {
    AtomicInteger count = new AtomicInteger();
    return run -> {
      Thread thread = new Thread(run, name + "-" + count.incrementAndGet());
      thread.setDaemon(true);
      return thread;
    };
  }

  /** Starts a thread. The result is complete when the thread has ended. */
  static CompletableFuture<Void> run(String name, Runnable run) {
    CompletableFuture<Void> ended = new CompletableFuture<>();
    start(
        name,
        () -> {
          try {
            run.run();
          } finally {
            ended.complete(null);
          }
        });
    return ended;
  }
}
