package com.example.leasebroker;

import io.grpc.Context;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** Ends calls and waits that are running, and those that begin later. */
final class Abort {
  /** The call or wait was ended by {@link #cancel}. */
  static final class Aborted extends RuntimeException {
    private static final long serialVersionUID = 1;
  }

  private final Context.CancellableContext context = Context.ROOT.withCancellation();
  private final CountDownLatch cancelled = new CountDownLatch(1);

  void cancel() {
    cancelled.countDown();
    context.cancel(null);
  }

  boolean isCancelled() {
    return cancelled.getCount() == 0;
  }

  /** Calls made in this context end with {@link #cancel}. */
  Context context() {
    return context;
  }

  /** Waits. Throws {@link Aborted} if it is cancelled first. */
  void sleep(long nanos) {
    try {
      if (cancelled.await(nanos, TimeUnit.NANOSECONDS)) {
        throw new Aborted();
      }
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw new Aborted();
    }
  }
}
