package com.example.leasebroker;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
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

  /** A wait that can be interrupted. */
  @FunctionalInterface
  interface Wait {
    void run() throws InterruptedException;
  }

  /** Waits until the end, also if the thread is interrupted meanwhile. */
  static void uninterrupted(Wait wait) {
    boolean interrupted = false;
    while (true) {
      try {
        wait.run();
        break;
      } catch (InterruptedException again) {
        interrupted = true;
      }
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  static void await(CountDownLatch latch) {
    uninterrupted(latch::await);
  }

  static void join(Thread thread) {
    uninterrupted(thread::join);
  }

  /** Waits for the end of a thread, or until a moment. */
  static void join(Thread thread, long until) {
    uninterrupted(() -> TimeUnit.NANOSECONDS.timedJoin(thread, until - Clock.now()));
  }
}
