package com.example.leasebroker;

import com.example.leasebroker.v1.ClaimBatchResponse;
import com.example.leasebroker.v1.HeartbeatRequest;
import com.example.leasebroker.v1.HeartbeatResponse;
import com.example.leasebroker.v1.HeartbeatResult;
import com.example.leasebroker.v1.LeaseServiceGrpc.LeaseServiceBlockingStub;
import com.example.leasebroker.v1.Lease;
import com.example.leasebroker.v1.Outcome;
import com.example.leasebroker.v1.RefusalReason;
import com.example.leasebroker.v1.Renewal;
import com.google.protobuf.InvalidProtocolBufferException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Executor;
import java.util.function.Consumer;

/**
 * Sends heartbeats, and watches the times of leases and handlers. It has its own thread and connection, so that neither a
 * handler nor a waiting claim delays a heartbeat.
 */
final class Keeper {
  /** The time after which a handler that was cancelled for the time limit has failed its item. */
  private static final long TIME_LIMIT_GRACE = 5 * Clock.SECOND;

  private static final long LONGEST_SLEEP = 3_600 * Clock.SECOND;
  private static final int MAX_BEAT_BYTES = 3 << 20;

  /** One Heartbeat call. */
  static final class Beat {
    final List<HeldLease> leases = new ArrayList<>();

    /** The numbers of the checkpoints that the call carries. */
    final List<Integer> saved = new ArrayList<>();

    final HeartbeatRequest.Builder request = HeartbeatRequest.newBuilder();
    final boolean fresh;
    int size;
    long period;

    Beat(boolean fresh) {
      this.fresh = fresh;
    }
  }

  private final State state;
  private final Caller caller;
  private final Executor executor;
  private final Consumer<? super LeaseBrokerException> onFatal;
  private final Abort abort = new Abort();

  /** True after the broker has refused the token of a heartbeat. */
  private boolean freshToken;

  /** `executor` runs the calls, so that this thread never waits for an answer. */
  Keeper(State state, Caller caller, Executor executor, Consumer<? super LeaseBrokerException> onFatal) {
    this.state = state;
    this.caller = caller;
    this.executor = executor;
    this.onFatal = onFatal;
  }

  /** Makes {@link #run} return. No heartbeat is sent any more. */
  void close() {
    abort.cancel();
    state.update(state::wakeKeeper);
  }

  /** Keeps the leases until {@link #close}. */
  void run() {
    executor.execute(this::warmUp);
    while (!abort.isCancelled()) {
      look().forEach(beat -> executor.execute(() -> send(beat)));
      state.read(
          () -> {
            if (!abort.isCancelled() && !state.clockChanged) {
              awaitClock(state.nextLook - Clock.now());
            }
            return null;
          });
    }
  }

  /** Acts on the times of leases and handlers. Returns the heartbeats that are due. */
  List<Beat> look() {
    List<Beat> beats = new ArrayList<>();
    state.update(
        () -> {
          long now = Clock.now();
          state.nextLook = now + LONGEST_SLEEP;
          state.clockChanged = false;
          List.copyOf(state.held.values()).forEach(lease -> watchLease(lease, now));
          List.copyOf(state.runs).forEach(run -> watchRun(run, now));
          addBeats(beats, now);
        });
    return beats;
  }

  /**
   * Connects, and loads the classes of a call, by a heartbeat without leases, and those of a lease. On a busy machine this takes
   * longer than a short lease may wait for its first heartbeat.
   */
  private void warmUp() {
    try {
      Lease sample = Lease.newBuilder().setItem(com.example.leasebroker.v1.Item.newBuilder().putColumns("", Values.toProto("", 0))).build();
      ClaimBatchResponse response = ClaimBatchResponse.newBuilder().addLeases(sample).build();
      new HeldLease(ClaimBatchResponse.parseFrom(response.toByteString()).getLeases(0), 0, 0).extend(0, 0);
    } catch (InvalidProtocolBufferException impossible) {
      throw new IllegalStateException(impossible);
    }
    HeartbeatRequest request = HeartbeatRequest.newBuilder().setQueue(state.options.queue()).build();
    caller.attempt(LeaseServiceBlockingStub::heartbeat, request, Caller.ATTEMPT_TIMEOUT, false, abort);
  }

  private void awaitClock(long nanos) {
    try {
      state.clock.awaitNanos(nanos);
    } catch (InterruptedException interrupted) {
      // Nothing of this library interrupts the thread. It looks again.
    }
  }

  private void lookAt(long moment) {
    state.nextLook = Math.min(state.nextLook, moment);
  }

  /** Acts on the times of a lease. */
  private void watchLease(HeldLease lease, long now) {
    if (lease.phase != HeldLease.Phase.RUNNING && lease.phase != HeldLease.Phase.ENDED) {
      return; // Its settling call ends at the deadline by itself.
    }
    long lostAt = state.lostAt(lease);
    if (now >= lostAt) {
      state.lose(lease, state.endedReason());
      return;
    }
    lookAt(lostAt);
    if (lease.phase == HeldLease.Phase.ENDED || lease.inDoubt) {
      return;
    }
    if (now < lease.doubtAt()) {
      lookAt(lease.doubtAt());
    } else if (state.options.heartbeat()) {
      lease.inDoubt = true;
      state.emit(state.events.of(Event.Name.HEARTBEAT_MISSED, lease.item));
    } else {
      state.cancel(lease.run, Cause.TIME_LIMIT, null);
    }
  }

  /** Acts on the times of a handler. */
  private void watchRun(Run run, long now) {
    Options options = state.options;
    if (run.cause == null) {
      if (options.timeLimit() == null || !run.hasBegun()) {
        return;
      }
      long limitAt = run.startedAt + Values.nanos(options.timeLimit());
      if (now < limitAt) {
        lookAt(limitAt);
        return;
      }
      state.cancel(run, Cause.TIME_LIMIT, null);
    }
    if (run.cause == Cause.TIME_LIMIT && options.heartbeat()) {
      long failAt = run.cancelledAt + Math.min(TIME_LIMIT_GRACE, Values.nanos(options.stuckAfter()));
      if (now < failAt) {
        lookAt(failAt);
      } else {
        run.leases.forEach(lease -> state.settle(Ending.failed(lease, Ending.timeLimitText(options.timeLimit()))));
      }
    }
    long stuckAt = run.cancelledAt + Values.nanos(options.stuckAfter());
    if (!run.stuck && now >= stuckAt) {
      giveUp(run);
    } else if (!run.stuck) {
      lookAt(stuckAt);
    }
  }

  /** Drops the leases of a handler that does not stop, and makes room for another handler. */
  private void giveUp(Run run) {
    run.stuck = true;
    state.stuck++;
    int stuck = state.stuck;
    for (HeldLease lease : run.leases) {
      if (lease.phase == HeldLease.Phase.RUNNING) {
        state.drop(lease);
      }
      Event event = state.events.of(Event.Name.STUCK, lease.item).withCause(run.cause);
      state.follow(() -> state.events.emit(event.withStack(run.context.stack())));
    }
    state.returnSlots(0);
    state.follow(
        () -> state.options.logger().log(
            System.Logger.Level.ERROR, "the handler of item {0} does not stop; {1} handlers are stuck, and {2} may be",
            run.leases.get(0).item.key(), stuck, state.options.maxStuck()));
  }

  /** Adds the heartbeats that are due, and sets the time of the next ones. */
  private void addBeats(List<Beat> beats, long now) {
    if (!state.options.heartbeat()) {
      state.nextBeat = Clock.NEVER;
    }
    if (now < state.nextBeat) {
      lookAt(state.nextBeat);
      return;
    }
    long period = Clock.NEVER;
    Beat beat = null;
    for (HeldLease lease : state.held.values()) {
      if (!lease.wantsHeartbeat()) {
        continue;
      }
      period = Math.min(period, lease.beatPeriod());
      Renewal.Builder renewal = Renewal.newBuilder().setLeaseId(lease.id);
      boolean stores = lease.saved != lease.stored && !state.isRefused(lease.checkpoint.size());
      if (stores) {
        renewal.setCheckpoint(lease.checkpoint);
      }
      int size = lease.id.length() + renewal.getCheckpoint().size() + 16;
      if (beat == null || beat.leases.size() == Options.MAX_ITEMS_PER_CALL || beat.size + size > MAX_BEAT_BYTES) {
        beat = new Beat(freshToken);
        beats.add(beat);
      }
      beat.leases.add(lease);
      beat.saved.add(stores ? lease.saved : lease.stored);
      // Without a duration the broker extends each lease by its own.
      beat.request.addRenewals(renewal);
      beat.size += size;
    }
    state.nextBeat = beats.isEmpty() ? Clock.NEVER : now + period;
    for (Beat each : beats) {
      each.period = period;
    }
    lookAt(state.nextBeat);
  }

  /** Sends a heartbeat once. If it fails, the next one comes soon. */
  private void send(Beat beat) {
    HeartbeatRequest request = beat.request.setQueue(state.options.queue()).build();
    long sentAt = Clock.now();
    Caller.Attempt<HeartbeatResponse> attempt =
        caller.attempt(LeaseServiceBlockingStub::heartbeat, request, beat.period, beat.fresh, abort);
    if (abort.isCancelled()) {
      return;
    }
    note(beat, attempt, sentAt);
  }

  /** Takes the end of the attempt to send a heartbeat. */
  void note(Beat beat, Caller.Attempt<HeartbeatResponse> attempt, long sentAt) {
    Failure failure =
        attempt.failure() != null ? attempt.failure() : Failure.ofCount(attempt.message().getResultsCount(), beat.leases.size());
    if (failure == null) {
      state.update(
          () -> {
            freshToken = false;
            note(beat, attempt.message(), sentAt);
          });
      return;
    }
    caller.reconnect();
    state.options.logger().log(System.Logger.Level.DEBUG, "heartbeat failed: {0}: {1}", failure.code(), failure.message());
    LeaseBrokerException error = new LeaseBrokerException("Heartbeat", failure);
    state.update(
        () -> {
          beatSoon(beat);
          state.wakeKeeper();
          if (error.refusesCaller()) {
            if (beat.fresh || !caller.hasToken()) {
              state.follow(() -> onFatal.accept(error));
            }
            freshToken = true;
          }
        });
  }

  /** Sends the next heartbeat soon after one that failed or was refused for now. */
  private void beatSoon(Beat beat) {
    state.nextBeat = Math.min(state.nextBeat, Clock.now() + beat.period / 4);
  }

  /** Takes the response to a heartbeat. */
  private void note(Beat beat, HeartbeatResponse response, long sentAt) {
    int extended = 0;
    for (int i = 0; i < response.getResultsCount(); i++) {
      HeartbeatResult result = response.getResults(i);
      HeldLease lease = beat.leases.get(i);
      if (result.getOutcome() == Outcome.OUTCOME_APPLIED) {
        extended++;
        lease.extend(sentAt, Values.nanos(result.getTimeLeft()));
        lease.stored = Math.max(lease.stored, beat.saved.get(i));
      } else if (result.getOutcome() == Outcome.OUTCOME_REFUSED) {
        // The lease is held and was not extended.
        Renewal renewal = beat.request.getRenewals(i);
        if (!renewal.hasCheckpoint() || result.getRefusal().getReason() == RefusalReason.REFUSAL_REASON_LOCKED) {
          beatSoon(beat);
        } else {
          // It is sent again without the checkpoint.
          state.refuseCheckpoint(lease, renewal.getCheckpoint().size(), result.getRefusal().getMessage());
          state.nextBeat = Clock.now();
        }
      } else if (lease.phase == HeldLease.Phase.RUNNING || lease.phase == HeldLease.Phase.ENDED) {
        // If it is being settled, the settling call may have ended it, and its outcome will say.
        state.lose(lease, result.getCancelReason());
      }
    }
    state.emit(state.events.of(Event.Name.HEARTBEAT).withCount(extended));
    state.wakeKeeper();
  }
}
