package com.example.leasebroker;

import io.grpc.Context;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

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

  /** Waits for a result, and throws its error. Throws {@link Aborted} if it is cancelled first. */
  <T> T await(CompletableFuture<T> result, long nanos) throws Exception {
    CompletableFuture<T> first = result.copy();
    Context.CancellationListener onCancel = ended -> first.completeExceptionally(new Aborted());
    context.addListener(onCancel, Runnable::run);
    try {
      return first.get(nanos, TimeUnit.NANOSECONDS);
    } catch (ExecutionException error) {
      Throwable cause = error.getCause() instanceof CompletionException wrapped ? wrapped.getCause() : error.getCause();
      if (cause instanceof Exception exception) {
        throw exception;
      }
      throw new ExecutionException(Ending.errorText(cause), cause);
    } catch (TimeoutException late) {
      throw new TimeoutException("no result in time");
    } finally {
      context.removeListener(onCancel);
    }
  }

  /** Waits. Throws {@link Aborted} if it is cancelled first. */
  void sleep(long nanos) throws InterruptedException {
    if (cancelled.await(nanos, TimeUnit.NANOSECONDS)) {
      throw new Aborted();
    }
  }
}
