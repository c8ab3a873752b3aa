package com.example.leasebroker;

import com.example.leasebroker.v1.CallError;
import com.example.leasebroker.v1.ClaimBatchResponse;
import com.example.leasebroker.v1.CompleteRequest;
import com.example.leasebroker.v1.CompleteResponse;
import com.example.leasebroker.v1.FailRequest;
import com.example.leasebroker.v1.FailResponse;
import com.example.leasebroker.v1.LeaseServiceGrpc.LeaseServiceBlockingStub;
import com.example.leasebroker.v1.NextClaim;
import com.example.leasebroker.v1.Refusal;
import com.example.leasebroker.v1.RefusalReason;
import com.example.leasebroker.v1.ReleaseRequest;
import com.example.leasebroker.v1.ReleaseResponse;
import com.example.leasebroker.v1.SettleResult;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import java.util.function.Predicate;

/** Tells the broker how items have ended, in groups, and claims the next items by the same call. */
final class Settler {
  // The limits of one call: follow-ups of all items, and bytes, below the broker's 4 MiB.
  private static final int MAX_FOLLOW_UPS = 1_000;
  private static final int MAX_GROUP_BYTES = 3 << 20;

  /** Handlers that end together share a call if the settler waits a moment. */
  private static final long YIELD_NANOS = 100_000;

  /** The part that the answers to the three settling calls have in common. `nextError` is null if the claim did not fail. */
  record Settlement(List<SettleResult> results, ClaimBatchResponse next, CallError nextError) {}

  /** A call that settles endings of one kind, and claims items for `slots` slots. `next` is null without slots. */
  record Call(List<Ending> group, int slots, NextClaim next, Way way) {}

  /** The order decides which of the calls of a group claims the next items. */
  private static final List<Predicate<Ending>> KINDS =
      List.of(ending -> ending.completion() != null, ending -> ending.failure() != null, ending -> ending.release() != null);

  private final State state;
  private final Caller caller;
  private final Executor executor;
  private final Consumer<? super LeaseBrokerException> onFatal;
  private final Abort abort = new Abort();

  Settler(State state, Caller caller, Executor executor, Consumer<? super LeaseBrokerException> onFatal) {
    this.state = state;
    this.caller = caller;
    this.executor = executor;
    this.onFatal = onFatal;
  }

  /** Makes the settler wait for no answer any more. */
  void giveUp() {
    abort.cancel();
    look();
  }

  /** Makes the settler look for endings that it can send. */
  private void look() {
    state.update(state.endingsReady::signal);
  }

  /** Settles until `settledAll` is set and no ending is left. */
  void run() {
    while (waitForEndings()) {
      gather();
      List<Call> settling = take();
      if (!settling.isEmpty()) {
        List<CompletableFuture<Void>> others =
            settling.stream().skip(1).map(call -> CompletableFuture.runAsync(() -> send(call), executor)).toList();
        send(settling.get(0));
        others.forEach(CompletableFuture::join);
      }
      finish();
    }
  }

  /** Waits for further endings, if there can be any. */
  private void gather() {
    long wait = state.read(() -> state.runs.isEmpty() ? 0 : Math.max(state.gathering.await(state.runs.size()), YIELD_NANOS));
    if (wait > 0) {
      LockSupport.parkNanos(wait);
    }
  }

  private boolean waitForEndings() {
    return state.read(
        () -> {
          while (true) {
            state.requeueLocked(abort.isCancelled());
            if (!state.endings.isEmpty()) {
              return true;
            }
            if (state.settledAll && state.locked.isEmpty()) {
              return false;
            }
            state.endingsReady.awaitUninterruptibly();
          }
        });
  }

  /** Takes the endings that one call can carry, in the order in which the handlers ended. */
  private void takeGroup(List<Ending> group) {
    int followUps = 0;
    int size = 0;
    long now = Clock.now();
    while (!state.endings.isEmpty()) {
      Ending ending = state.endings.peek();
      followUps += ending.followUps();
      size += ending.size();
      if (!group.isEmpty() && (group.size() == Options.MAX_ITEMS_PER_CALL || followUps > MAX_FOLLOW_UPS || size > MAX_GROUP_BYTES)) {
        return;
      }
      HeldLease lease = ending.lease();
      // One whose row was locked may wait for the lock again, and others would wait with it.
      if (!group.isEmpty() && lease.isResent() != group.get(0).lease().isResent()) {
        return;
      }
      state.endings.remove();
      if (lease.phase == HeldLease.Phase.DONE) {
        continue; // The lease was lost while its ending waited.
      }
      if (now >= lease.deadline) {
        state.lose(lease, state.endedReason());
      } else {
        if (lease.phase == HeldLease.Phase.ENDED) {
          lease.phase = HeldLease.Phase.SETTLING;
        }
        group.add(ending);
      }
    }
  }

  /** Takes endings from the state. Returns one call for each kind of ending. The first one claims items. */
  List<Call> take() {
    List<Call> settling = new ArrayList<>();
    state.update(
        () -> {
          List<Ending> group = new ArrayList<>();
          takeGroup(group);
          state.settling = !group.isEmpty();
          // A Release claims nothing.
          boolean claims = group.stream().anyMatch(ending -> ending.release() == null);
          int slots = claims ? state.reserveSlots() : 0;
          for (Predicate<Ending> kind : KINDS) {
            List<Ending> part = group.stream().filter(kind).toList();
            if (!part.isEmpty()) {
              settling.add(new Call(part, slots, slots > 0 ? nextClaim(slots) : null, new Way(state, part)));
              slots = 0;
            }
          }
        });
    return settling;
  }

  /** Notes that all calls of `take` have ended. */
  void finish() {
    state.update(
        () -> {
          state.settling = false;
          state.returnSlots(0);
        });
  }

  /** Sends endings whose rows are locked again after a pause, unless their leases end before. */
  private void postpone(List<Ending> locked) {
    keepLeases(locked);
    int tries = 1 + locked.stream().mapToInt(ending -> ending.lease().tries).max().orElseThrow();
    long pause;
    try {
      pause = caller.pauseAfterLock(locked.get(0).rpc(), tries, lastDeadline(locked), attemptTimeout(locked));
    } catch (LeaseBrokerException error) {
      giveUp(new Call(locked, 0, null, null), error.getMessage(), error.applied());
      return;
    }
    long sendAt = Clock.now() + pause;
    state.update(
        () -> {
          for (Ending ending : locked) {
            ending.lease().tries = tries;
            ending.lease().sendAt = sendAt;
          }
          state.locked.addAll(locked);
        });
    CompletableFuture.delayedExecutor(pause, TimeUnit.NANOSECONDS, executor).execute(this::look);
  }

  /** Sends a call until the last of its leases ends. */
  private void send(Call call) {
    Caller.Answer<Settlement> answer;
    try {
      answer = call(call.group, call.next, call.way);
    } catch (LeaseBrokerException error) {
      note(call, error);
      return;
    } catch (Abort.Aborted stopped) {
      giveUp(call, "the worker has stopped", Failure.APPLIED_UNKNOWN);
      return;
    }
    note(call, answer);
  }

  /** Takes the error of a call. */
  void note(Call call, LeaseBrokerException error) {
    if (call.way.refuses() || error.refusesRequest()) {
      state.update(() -> abandon(call, error.applied()));
      if (call.next != null && error.refusesNext()) {
        // Nothing is wrong with the endings. A poller claims for the slots, and reports the error.
        send(new Call(call.group, 0, null, new Way(state, call.group)));
      } else {
        sendAlone(call.group, error, call.way);
      }
      return;
    }
    giveUp(call, error.getMessage(), error.applied());
    if (error.refusesCaller()) {
      onFatal.accept(error);
    }
  }

  /** Takes the answer to a call. */
  void note(Call call, Caller.Answer<Settlement> answer) {
    Settlement message = answer.message();
    List<Ending> locked = new ArrayList<>();
    state.update(
        () -> {
          note(call.group, answer, locked);
          if (message.nextError() == null) {
            state.accept(message.next().getLeasesList(), call.slots, answer.sentAt(), answer.arrivedAt());
          }
        });
    if (message.nextError() != null) {
      claimFailed(Failure.read(message.nextError()), call.next, call.slots);
    }
    if (!locked.isEmpty()) {
      postpone(locked);
    }
  }

  /**
   * Takes the error of a claim in `next`, as a poller takes that of its own claim. The slots wait for as long as the broker
   * asks, and then a poller claims for them.
   */
  private void claimFailed(Failure failure, NextClaim next, int slots) {
    if (!failure.applied().equals(Failure.APPLIED_NO)) {
      state.update(() -> state.abandoned.add(next.getRequestId()));
    }
    if (!failure.mayPass()) {
      state.update(() -> state.returnSlots(slots));
      onFatal.accept(new LeaseBrokerException("ClaimBatch", failure));
      return;
    }
    long wait = failure.asksToWait() ? failure.pushbackNanos() : Caller.firstBackoff();
    caller.noteRetry("ClaimBatch", failure, 1, wait);
    CompletableFuture.delayedExecutor(wait, TimeUnit.NANOSECONDS, executor).execute(() -> state.update(() -> state.returnSlots(slots)));
  }

  /** Drops the leases of a group that may be settled or not. */
  private void giveUp(Call call, String error, String applied) {
    state.update(
        () -> {
          for (Ending ending : call.group) {
            state.emit(state.events.of(Event.Name.UNKNOWN, ending.lease().item).withError(error));
            state.noteLoss(ending.lease(), error);
            state.drop(ending.lease());
          }
          abandon(call, applied);
        });
  }

  /** Gives back the slots of a claim that has failed. */
  private void abandon(Call call, String applied) {
    if (call.next != null && !applied.equals(Failure.APPLIED_NO)) {
      state.abandoned.add(call.next.getRequestId());
    }
    state.returnSlots(call.slots);
  }

  /** Settles the endings of a refused call one by one, so that only the malformed one fails. */
  private void sendAlone(List<Ending> group, LeaseBrokerException refused, Way way) {
    if (refused.reason().isEmpty()) {
      String text = "a settlement of {0} items is refused on the way to the broker: they are settled one by one, or failed: {1}";
      state.options.logger().log(System.Logger.Level.WARNING, text, group.size(), refused.getMessage());
    }
    if (group.size() == 1) {
      state.update(() -> refuse(group.get(0), "", refused.description()));
      return;
    }
    for (Ending ending : group) {
      List<Ending> part = List.of(ending);
      send(new Call(part, 0, null, way.of(part)));
    }
  }

  /** Sends the settling call of a group until the last of its leases ends. */
  private Caller.Answer<Settlement> call(List<Ending> group, NextClaim next, Way way) {
    Caller.Limits limits =
        new Caller.Limits(() -> lastDeadline(group), attemptTimeout(group), abort, () -> keepLeases(group), way::note);
    String queue = state.options.queue();
    if (group.get(0).completion() != null) {
      CompleteRequest.Builder request = CompleteRequest.newBuilder().setQueue(queue);
      group.forEach(ending -> request.addCompletions(ending.completion()));
      if (next != null) {
        request.setNext(next);
      }
      Caller.Answer<CompleteResponse> answer = caller.call("Complete", LeaseServiceBlockingStub::complete, request.build(), limits);
      CompleteResponse message = answer.message();
      return settled(answer, message.getResultsList(), message.getNext(), message.hasNextError() ? message.getNextError() : null, group);
    } else if (group.get(0).failure() != null) {
      FailRequest.Builder request = FailRequest.newBuilder().setQueue(queue);
      group.forEach(ending -> request.addFailures(ending.failure()));
      if (next != null) {
        request.setNext(next);
      }
      Caller.Answer<FailResponse> answer = caller.call("Fail", LeaseServiceBlockingStub::fail, request.build(), limits);
      FailResponse message = answer.message();
      return settled(answer, message.getResultsList(), message.getNext(), message.hasNextError() ? message.getNextError() : null, group);
    }
    ReleaseRequest.Builder request = ReleaseRequest.newBuilder().setQueue(queue);
    group.forEach(ending -> request.addReleases(ending.release()));
    Caller.Answer<ReleaseResponse> answer = caller.call("Release", LeaseServiceBlockingStub::release, request.build(), limits);
    return settled(answer, answer.message().getResultsList(), ClaimBatchResponse.getDefaultInstance(), null, group);
  }

  /** The call may take a while: heartbeats keep the leases from now on. */
  void keepLeases(List<Ending> group) {
    state.update(
        () -> {
          for (Ending ending : group) {
            if (ending.lease().phase == HeldLease.Phase.SETTLING) {
              ending.lease().phase = HeldLease.Phase.RESENDING;
            }
          }
          state.nextBeat = Clock.now();
          state.wakeKeeper();
        });
  }

  /** Returns the deadline of an attempt. If a connection is dead, another attempt must be made before a lease ends. */
  private long attemptTimeout(List<Ending> group) {
    long shortest = state.read(() -> group.stream().mapToLong(ending -> ending.lease().duration).min().orElseThrow());
    return Math.min(Caller.ATTEMPT_TIMEOUT, Math.max(shortest / 2, Clock.SECOND));
  }

  private long lastDeadline(List<Ending> group) {
    return state.read(() -> group.stream().mapToLong(ending -> ending.lease().deadline).max().orElseThrow());
  }

  private NextClaim nextClaim(int slots) {
    Options options = state.options;
    NextClaim.Builder claim =
        NextClaim.newBuilder()
            .setWorkerId(options.workerId())
            .setMaxItems(slots * options.slotSize())
            .setRequestId(UUID.randomUUID().toString())
            .setMaxBytes(Poller.MAX_RESPONSE_BYTES)
            .addAllGroups(options.groups());
    if (options.lease() != null) {
      claim.setLeaseDuration(Values.duration(options.lease()));
    }
    return claim.build();
  }

  /** Takes the outcome of each ending. Adds those to `locked` whose rows are locked. */
  private void note(List<Ending> group, Caller.Answer<Settlement> answer, List<Ending> locked) {
    List<SettleResult> results = answer.message().results();
    for (int i = 0; i < results.size(); i++) {
      Ending ending = group.get(i);
      SettleResult result = results.get(i);
      Item item = ending.lease().item;
      Event event =
          switch (result.getOutcome()) {
            case OUTCOME_REFUSED -> null;
            case OUTCOME_APPLIED -> {
              if (ending.completion() != null) {
                yield state.events.of(Event.Name.COMPLETED, item);
              } else if (ending.failure() != null) {
                yield state.events.of(Event.Name.FAILED, item).withError(ending.failure().getErrorMessage());
              }
              yield state.events.of(Event.Name.RELEASED, item);
            }
            // If the request was sent before, while the lease held, that one has removed the row.
            case OUTCOME_GONE ->
                state.events.of(
                    answer.attempts() > 1 && answer.firstSentAt() < ending.lease().deadline ? Event.Name.COMPLETED : Event.Name.UNKNOWN,
                    item);
            default -> state.events.of(Event.Name.LOST, item);
          };
      if (event == null && result.getRefusal().getReason() == RefusalReason.REFUSAL_REASON_LOCKED) {
        locked.add(ending);
      } else if (event == null) {
        refuse(ending, result.getRefusal().getField(), refusalText(result.getRefusal()));
      } else {
        state.emit(event);
        if (event.name() == Event.Name.LOST || event.name() == Event.Name.UNKNOWN) {
          state.noteLoss(ending.lease(), event.name() == Event.Name.LOST ? "the broker has ended the lease" : "the row is gone");
        }
        state.drop(ending.lease());
      }
    }
  }

  /**
   * Settles an item in another way if the broker has refused its ending: the same one can never succeed. A failure or a release
   * is sent again without the refused field. If that is not known, the checkpoint is left out first.
   */
  private void refuse(Ending ending, String field, String problem) {
    HeldLease lease = ending.lease();
    state.emit(state.events.of(Event.Name.REFUSED, lease.item).withReason(problem));
    state.warnOfRefusal(lease, ending.rpc(), problem);
    Ending instead;
    if (ending.completion() != null) {
      instead = Ending.failed(lease, "Refused: " + problem);
    } else if (ending.checkpoint() != null && !field.equals("retry_delay") && !field.equals("delay")) {
      state.refuseCheckpoint(lease, ending.checkpoint().size(), problem);
      instead = ending;
    } else {
      instead = ending.withoutDelay();
    }
    if (instead == null) {
      state.drop(lease);
      return;
    }
    lease.phase = HeldLease.Phase.RUNNING;
    state.settle(instead);
  }

  /** Returns the path of the refused field, if it is known, and the broker's text. */
  private static String refusalText(Refusal refusal) {
    return refusal.getField().isEmpty() ? refusal.getMessage() : refusal.getField() + ": " + refusal.getMessage();
  }

  /** Returns the answer to a settling call. Throws if it has not one result for each ending of the group. */
  private static Caller.Answer<Settlement> settled(
      Caller.Answer<?> answer, List<SettleResult> results, ClaimBatchResponse next, CallError nextError, List<Ending> group) {
    Failure failure = Failure.ofCount(results.size(), group.size());
    if (failure != null) {
      throw new LeaseBrokerException(group.get(0).rpc(), failure);
    }
    Settlement message = new Settlement(results, next, nextError);
    return new Caller.Answer<>(message, answer.firstSentAt(), answer.sentAt(), answer.arrivedAt(), answer.attempts());
  }
}
