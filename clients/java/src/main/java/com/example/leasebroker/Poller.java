package com.example.leasebroker;

import com.example.leasebroker.v1.ClaimBatchRequest;
import com.example.leasebroker.v1.ClaimBatchResponse;
import com.example.leasebroker.v1.HeldBack;
import com.example.leasebroker.v1.LeaseServiceGrpc.LeaseServiceBlockingStub;
import com.example.leasebroker.v1.ReleaseClaimsRequest;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.Consumer;

/** Claims items for free slots by calls that wait for items. */
final class Poller {
  /** Lets the broker's own limits decide how large a response is. */
  static final int MAX_RESPONSE_BYTES = 1 << 30;

  /** Spreads the first claims of workers that start together. */
  private static final long MAX_START_DELAY = Clock.SECOND / 4;

  /** Follows an empty response of a broker that stops, and one that came early. */
  private static final long EARLY_ANSWER_PAUSE = Clock.SECOND / 10;

  /** The longest pause before the next claim that a broker can ask for. Limits of a queue can change. */
  private static final long LONGEST_PAUSE = 60 * Clock.SECOND;

  /** The time that the release of abandoned claims may take. */
  private static final long RELEASE_TIMEOUT = 2 * Clock.SECOND;

  private final State state;
  private final Caller caller;
  private final ConnectionHealth health;
  private final Consumer<? super LeaseBrokerException> onFatal;
  private final Abort abort = new Abort();

  Poller(State state, Caller caller, ConnectionHealth health, Consumer<? super LeaseBrokerException> onFatal) {
    this.state = state;
    this.caller = caller;
    this.health = health;
    this.onFatal = onFatal;
  }

  /** Ends the claims that are waiting. */
  void stop() {
    abort.cancel();
  }

  /** Claims until {@link #stop}, or until the broker refuses the claim. */
  void run() {
    try {
      abort.sleep(ThreadLocalRandom.current().nextLong(MAX_START_DELAY));
      for (int slots = waitForSlots(); slots > 0; slots = waitForSlots()) {
        claim(slots);
      }
    } catch (Abort.Aborted stopped) {
      // The worker stops.
    } catch (LeaseBrokerException error) {
      onFatal.accept(error);
    } catch (InterruptedException interrupted) {
      throw new IllegalStateException("a thread of the worker was interrupted", interrupted);
    }
  }

  /** Waits until a claim is useful. Returns 0 if the worker stops. */
  private int waitForSlots() {
    return state.read(
        () -> {
          while (state.takesItems) {
            if (state.mayClaim()) {
              int slots = state.reserveSlots();
              if (slots > 0) {
                return slots;
              }
            }
            state.slotsFree.awaitUninterruptibly();
          }
          return 0;
        });
  }

  private void claim(int slots) throws InterruptedException {
    releaseAbandoned(true, Clock.NEVER);
    Options options = state.options;
    // Without an answer before, a claim that waits for items looks like a broker that does not answer.
    Duration wait = health.answers() ? options.pollWait() : Duration.ZERO;
    ClaimBatchRequest.Builder request =
        ClaimBatchRequest.newBuilder()
            .setQueue(options.queue())
            .setWorkerId(options.workerId())
            .setMaxItems(slots * options.slotSize())
            .setWaitTimeout(Values.duration(wait))
            .setRequestId(UUID.randomUUID().toString())
            .setMaxBytes(MAX_RESPONSE_BYTES)
            .addAllGroups(options.groups());
    if (options.lease() != null) {
      request.setLeaseDuration(Values.duration(options.lease()));
    }
    long begun = Clock.now();
    long timeout = Values.nanos(wait) + 5 * Clock.SECOND;
    Caller.Limits limits = new Caller.Limits(() -> Clock.NEVER, timeout, abort, request::clearWaitTimeout);
    Caller.Answer<ClaimBatchResponse> answer;
    try {
      answer = caller.call("ClaimBatch", (stub, claim) -> stub.claimBatch(claim.build()), request, limits);
    } catch (RuntimeException error) {
      boolean changedNothing = error instanceof LeaseBrokerException failed && failed.applied().equals(Failure.APPLIED_NO);
      state.update(
          () -> {
            if (!changedNothing) {
              state.abandoned.add(request.getRequestId());
            }
            state.returnSlots(slots);
          });
      throw error;
    }
    ClaimBatchResponse response = answer.message();
    state.update(() -> state.accept(response.getLeasesList(), slots, answer.sentAt(), answer.arrivedAt()));
    boolean stops = response.getHeldBack() == HeldBack.HELD_BACK_STOPPING;
    boolean isEarly = Clock.now() - begun < Values.nanos(wait) / 2 || Values.nanos(options.pollWait()) < EARLY_ANSWER_PAUSE;
    if (response.hasRetryAfter() && response.getLeasesCount() == 0) {
      // A limit of the queue gives no item before.
      abort.sleep(Math.min(Values.nanos(response.getRetryAfter()), LONGEST_PAUSE));
    } else if (stops || response.getLeasesCount() == 0 && isEarly) {
      abort.sleep(ThreadLocalRandom.current().nextLong(EARLY_ANSWER_PAUSE / 2, EARLY_ANSWER_PAUSE * 3 / 2));
    }
  }

  /**
   * Releases the items of claims whose response was not read, until a moment. A worker that stops calls it twice: the first request
   * may reach one broker before another has run the claim.
   */
  void releaseAbandoned(boolean forget, long until) {
    List<String> ids = state.read(() -> List.copyOf(state.abandoned));
    if (ids.isEmpty()) {
      return;
    }
    ReleaseClaimsRequest request =
        ReleaseClaimsRequest.newBuilder()
            .setQueue(state.options.queue())
            .setWorkerId(state.options.workerId())
            .addAllRequestIds(ids)
            .build();
    boolean isDone = forget;
    try {
      caller.call("ReleaseClaims", LeaseServiceBlockingStub::releaseClaims, request, Caller.Limits.until(Math.min(Clock.now() + RELEASE_TIMEOUT, until)));
    } catch (LeaseBrokerException error) {
      isDone = !error.temporary();
      if (forget || isDone) {
        state.options.logger().log(System.Logger.Level.WARNING, "items of abandoned claims may stay leased until they expire: {0}", error.getMessage());
      }
    }
    if (isDone) {
      state.update(() -> state.abandoned.removeAll(ids));
    }
  }
}
