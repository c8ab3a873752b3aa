package com.example.leasebroker;

import com.example.leasebroker.v1.ClaimBatchResponse;
import com.example.leasebroker.v1.HeldBack;
import com.example.leasebroker.v1.LeaseServiceGrpc.LeaseServiceBlockingStub;
import io.grpc.Context;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.MetadataUtils;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import java.util.function.Predicate;

/**
 * The one place where requests are sent again. gRPC's own retries are off: they stop after about three seconds, while a
 * settlement is worth sending until its lease ends, and they can be neither observed nor stopped.
 */
class Caller {
  /** The time after which an attempt is given up. Claims that wait add their wait. */
  static final long ATTEMPT_TIMEOUT = 10 * Clock.SECOND;

  private static final long MIN_BACKOFF = Clock.SECOND / 10;
  private static final long MAX_BACKOFF = 5 * Clock.SECOND;
  private static final Metadata.Key<String> AUTHORIZATION = Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

  /** A method of the generated stub. */
  @FunctionalInterface
  interface Method<Q, R> {
    R send(LeaseServiceBlockingStub stub, Q request);
  }

  /** A request that is about to be sent again. */
  record Retrying(String rpc, Failure failure, int attempt, long waitNanos) {}

  /** The result of one attempt. One of the two is null. */
  record Attempt<R>(R message, Failure failure) {}

  /**
   * The answer to a request.
   *
   * @param firstSentAt the moment before the first attempt
   * @param sentAt the moment before the answered attempt
   * @param arrivedAt the moment at which the response arrived
   */
  record Answer<R>(R message, long firstSentAt, long sentAt, long arrivedAt, int attempts) {}

  /**
   * How long a call is worth sending.
   *
   * @param until returns the moment after which no attempt is made
   * @param attemptTimeout the deadline of each attempt, in nanoseconds
   * @param abort ends the call
   * @param onRetry runs before the request is sent again
   * @param givesUp takes each failure after which the request can be sent again. True: that is of no use
   */
  record Limits(LongSupplier until, long attemptTimeout, Abort abort, Runnable onRetry, Predicate<Failure> givesUp) {
    Limits(LongSupplier until, long attemptTimeout, Abort abort, Runnable onRetry) {
      this(until, attemptTimeout, abort, onRetry, failure -> false);
    }

    static Limits until(long moment) {
      return new Limits(() -> moment, ATTEMPT_TIMEOUT, new Abort(), () -> {});
    }
  }

  private final Transport transport;
  private final BearerToken token;
  private final Consumer<Failure> onAttempt;
  private final Consumer<Retrying> onRetry;

  /** `onAttempt` gets the failure of each attempt, null if it was answered. */
  Caller(Transport transport, TokenSource token, Consumer<Failure> onAttempt, Consumer<Retrying> onRetry) {
    this.transport = transport;
    this.token = token == null ? null : new BearerToken(token);
    this.onAttempt = onAttempt;
    this.onRetry = onRetry;
  }

  boolean hasToken() {
    return token != null;
  }

  /**
   * Sends a request until it is answered, until that is of no use, or until it is aborted.
   *
   * @throws LeaseBrokerException if the request failed, or if the thread was interrupted
   * @throws Abort.Aborted if it was aborted
   */
  <Q, R> Answer<R> call(String rpc, Method<Q, R> method, Q request, Limits limits) {
    long backoff = MIN_BACKOFF;
    boolean fresh = false;
    boolean mayBeApplied = false;
    long firstSentAt = Clock.now();
    for (int attempts = 1; ; attempts++) {
      long sentAt = Clock.now();
      long timeout = Math.max(Math.min(limits.attemptTimeout(), limits.until().getAsLong() - sentAt), Clock.MILLISECOND);
      Attempt<R> attempt = attempt(method, request, timeout, fresh, limits.abort());
      Failure failure = attempt.failure();
      if (failure == null) {
        return new Answer<>(attempt.message(), firstSentAt, sentAt, Clock.now(), attempts);
      }
      if (limits.abort().isCancelled()) {
        throw new Abort.Aborted();
      }
      if (mayBeApplied) {
        failure = failure.withUnknownApplied();
      }
      mayBeApplied = !failure.applied().equals(Failure.APPLIED_NO);
      long wait = 0;
      if (failure.code() == Status.Code.UNAUTHENTICATED && !failure.asksToWait() && token != null && !fresh) {
        fresh = true;
      } else if (!failure.mayPass() || limits.givesUp().test(failure)) {
        throw new LeaseBrokerException(rpc, failure);
      } else if (failure.asksToWait()) {
        wait = failure.pushbackNanos();
      } else {
        wait = jitter(backoff);
        backoff = nextBackoff(backoff, limits.attemptTimeout());
      }
      if (Clock.now() + wait >= limits.until().getAsLong()) {
        throw new LeaseBrokerException(rpc, failure);
      }
      noteRetry(rpc, failure, attempts, wait);
      limits.onRetry().run();
      try {
        limits.abort().sleep(wait);
      } catch (InterruptedException interrupted) {
        Thread.currentThread().interrupt();
        throw new LeaseBrokerException(rpc, Failure.of(Status.Code.CANCELLED, "the thread was interrupted", failure.applied()));
      }
      transport.reconnect();
    }
  }

  /** Sends a request once. */
  <Q, R> Attempt<R> attempt(Method<Q, R> method, Q request, long timeoutNanos, boolean fresh, Abort abort) {
    long end = Clock.now() + timeoutNanos;
    Transport.Broker broker;
    Metadata headers = new Metadata();
    String problem = "the name of the broker is unknown: ";
    try {
      transport.awaitAddresses(timeoutNanos, abort);
      broker = transport.route();
      if (!broker.awaitConnection(end - Clock.now(), abort)) {
        transport.noteFailure(broker, true);
        return notSent(Status.Code.UNAVAILABLE, "no connection in time", abort);
      }
      problem = "the token cannot be read: ";
      if (token != null) {
        headers.put(AUTHORIZATION, "Bearer " + token.read(fresh, end - Clock.now(), abort));
      }
    } catch (Abort.Aborted stopped) {
      return notSent(Status.Code.CANCELLED, "the call was ended", abort);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      return notSent(Status.Code.CANCELLED, "the thread was interrupted", abort);
    } catch (Throwable error) {
      // The source of a token is the program's, so it can throw anything. A file can be missing for a moment while it is replaced.
      return notSent(Status.Code.UNAVAILABLE, problem + Ending.errorText(error), abort);
    }
    LeaseServiceBlockingStub stub = broker.stub().withDeadlineAfter(Math.max(end - Clock.now(), Clock.MILLISECOND), TimeUnit.NANOSECONDS);
    if (token != null) {
      stub = stub.withInterceptors(MetadataUtils.newAttachHeadersInterceptor(headers));
    }
    Context previous = abort.context().attach();
    try {
      R message = method.send(stub, request);
      if (message instanceof ClaimBatchResponse claim && claim.getHeldBack() == HeldBack.HELD_BACK_STOPPING) {
        transport.noteFailure(broker, false);
      } else {
        transport.noteAnswer(broker);
      }
      onAttempt.accept(null);
      return new Attempt<>(message, null);
    } catch (StatusRuntimeException error) {
      Failure failure = Failure.read(error);
      if (failure.isOfConnection() && !abort.isCancelled()) {
        transport.noteFailure(broker, failure.isSilent());
      }
      return failed(failure, abort);
    } finally {
      abort.context().detach(previous);
    }
  }

  private <R> Attempt<R> notSent(Status.Code code, String message, Abort abort) {
    return failed(Failure.of(code, message, Failure.APPLIED_NO), abort);
  }

  private <R> Attempt<R> failed(Failure failure, Abort abort) {
    if (!abort.isCancelled()) {
      onAttempt.accept(failure);
    }
    return new Attempt<>(null, failure);
  }

  /** Notes a request that is about to be sent again. */
  void noteRetry(String rpc, Failure failure, int attempt, long waitNanos) {
    onRetry.accept(new Retrying(rpc, failure, attempt, waitNanos));
  }

  /**
   * Returns the wait before entries are sent again that a lock has refused this often.
   *
   * @throws LeaseBrokerException if the wait does not end before `until`
   */
  long pauseAfterLock(String rpc, int tries, long until, long attemptTimeout) {
    long backoff = MIN_BACKOFF;
    for (int i = 1; i < tries; i++) {
      backoff = nextBackoff(backoff, attemptTimeout);
    }
    long wait = jitter(backoff);
    if (Clock.now() + wait >= until) {
      throw new LeaseBrokerException(rpc, Failure.OF_LOCK);
    }
    noteRetry(rpc, Failure.OF_LOCK, tries, wait);
    return wait;
  }

  /** Returns the wait before the first retry of a failure for which the broker asks for none. */
  static long firstBackoff() {
    return jitter(MIN_BACKOFF);
  }

  /**
   * Returns the wait after another one. An attempt at a settlement may take half of the lease, and at least 1 s. So a wait takes at
   * most a quarter of the lease, or 0.5 s, and heartbeats extend the lease more often.
   */
  private static long nextBackoff(long backoff, long attemptTimeout) {
    return Math.min(Math.min(backoff * 2, MAX_BACKOFF), attemptTimeout / 2);
  }

  /** Keeps many workers from sending at the same time. */
  private static long jitter(long backoff) {
    return (long) (backoff * ThreadLocalRandom.current().nextDouble(0.5, 1));
  }

  void reconnect() {
    transport.reconnect();
  }
}
