package com.example.leasebroker;

import com.example.leasebroker.v1.CallError;
import com.example.leasebroker.v1.ClaimBatchRequest;
import com.example.leasebroker.v1.ClaimBatchResponse;
import com.example.leasebroker.v1.CompleteRequest;
import com.example.leasebroker.v1.CompleteResponse;
import com.example.leasebroker.v1.FailRequest;
import com.example.leasebroker.v1.FailResponse;
import com.example.leasebroker.v1.HeartbeatRequest;
import com.example.leasebroker.v1.HeartbeatResponse;
import com.example.leasebroker.v1.HeartbeatResult;
import com.example.leasebroker.v1.Item;
import com.example.leasebroker.v1.Lease;
import com.example.leasebroker.v1.LeaseServiceGrpc;
import com.example.leasebroker.v1.Outcome;
import com.example.leasebroker.v1.Refusal;
import com.example.leasebroker.v1.RefusalReason;
import com.example.leasebroker.v1.ReleaseClaimsRequest;
import com.example.leasebroker.v1.ReleaseClaimsResponse;
import com.example.leasebroker.v1.Renewal;
import com.example.leasebroker.v1.SettleResult;
import com.example.leasebroker.v1.WakeRequest;
import com.example.leasebroker.v1.WakeResponse;
import io.grpc.Context;
import io.grpc.Contexts;
import io.grpc.Grpc;
import io.grpc.Metadata;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerCredentials;
import io.grpc.ServerInterceptor;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.IntFunction;

/** A broker whose answers a test writes. Its first claim gets one lease, which lasts for `timeLeft`. */
final class ScriptedBroker extends LeaseServiceGrpc.LeaseServiceImplBase implements AutoCloseable {
  private static final Context.Key<String> AUTHORIZATION = Context.key("authorization");

  final AtomicInteger wakes = new AtomicInteger();
  final List<ClaimBatchRequest> claimRequests = Collections.synchronizedList(new ArrayList<>());
  final List<CompleteRequest> completes = Collections.synchronizedList(new ArrayList<>());
  final List<com.example.leasebroker.v1.Failure> failures = Collections.synchronizedList(new ArrayList<>());
  final BlockingQueue<Renewal> renewals = new LinkedBlockingQueue<>();

  /** The request ids of ReleaseClaims. */
  final List<String> released = Collections.synchronizedList(new ArrayList<>());

  volatile Duration timeLeft = Duration.ofSeconds(10);

  /** Returns the error of the nth Wake, or null. */
  volatile IntFunction<StatusRuntimeException> wake = call -> null;

  /** The errors of the first claims. */
  final Queue<StatusRuntimeException> claimErrors = new ConcurrentLinkedQueue<>();

  /** The errors of the first completions. */
  final Queue<StatusRuntimeException> completeErrors = new ConcurrentLinkedQueue<>();

  /** The field that the first Fail is refused for. Empty: it is applied. */
  volatile String refusedField = "";

  /** The error of the claim in `next`. */
  volatile CallError nextError;

  /** Returns the outcome of the nth Complete, or null for UNAVAILABLE. UNSPECIFIED: the answer has no result. REFUSED: the row is locked. */
  volatile IntFunction<Outcome> complete = call -> Outcome.OUTCOME_APPLIED;

  /** True: each claim is answered without a lease. */
  volatile boolean isEmpty;

  /** The error of each ReleaseClaims, or null. */
  volatile StatusRuntimeException releaseError;

  /** The only accepted token. Empty: calls need none. */
  volatile String token = "";

  private final AtomicInteger claims = new AtomicInteger();
  private final Server server;

  ScriptedBroker(ServerCredentials credentials) throws IOException {
    server = Grpc.newServerBuilderForPort(0, credentials).addService(this).intercept(new TokenCheck()).build().start();
  }

  String address() {
    return "127.0.0.1:" + server.getPort();
  }

  /** Refuses calls without the token. */
  private final class TokenCheck implements ServerInterceptor {
    @Override
    public <Q, R> ServerCall.Listener<Q> interceptCall(ServerCall<Q, R> call, Metadata headers, ServerCallHandler<Q, R> next) {
      String given = headers.get(Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER));
      return Contexts.interceptCall(Context.current().withValue(AUTHORIZATION, given), call, headers, next);
    }
  }

  private boolean refuses(StreamObserver<?> answer) {
    if (token.isEmpty() || ("Bearer " + token).equals(AUTHORIZATION.get())) {
      return false;
    }
    answer.onError(Status.UNAUTHENTICATED.withDescription("unknown token").asRuntimeException());
    return true;
  }

  @Override
  public void wake(WakeRequest request, StreamObserver<WakeResponse> answer) {
    int call = wakes.incrementAndGet();
    if (refuses(answer)) {
      return;
    }
    StatusRuntimeException error = wake.apply(call);
    if (error == null) {
      answer.onNext(WakeResponse.getDefaultInstance());
      answer.onCompleted();
    } else {
      answer.onError(error);
    }
  }

  @Override
  public void claimBatch(ClaimBatchRequest request, StreamObserver<ClaimBatchResponse> answer) {
    claimRequests.add(request);
    StatusRuntimeException error = claimErrors.poll();
    if (error != null) {
      answer.onError(error);
      return;
    }
    if (isEmpty) {
      answer.onNext(ClaimBatchResponse.getDefaultInstance());
      answer.onCompleted();
      return;
    }
    if (refuses(answer) || claims.incrementAndGet() > 1) {
      return; // A later claim waits until the worker cancels it.
    }
    Lease lease =
        Lease.newBuilder()
            .setLeaseId("lease-1")
            .setItem(Item.newBuilder().setKey("1"))
            .setAttempt(1)
            .setFencingToken(1)
            .setTimeLeft(Values.duration(timeLeft))
            .build();
    answer.onNext(ClaimBatchResponse.newBuilder().addLeases(lease).build());
    answer.onCompleted();
  }

  @Override
  public void complete(CompleteRequest request, StreamObserver<CompleteResponse> answer) {
    StatusRuntimeException error = completeErrors.poll();
    if (error != null) {
      answer.onError(error);
      return;
    }
    completes.add(request);
    Outcome outcome = complete.apply(completes.size());
    if (outcome == null) {
      answer.onError(Status.UNAVAILABLE.withDescription("the response was lost").asRuntimeException());
      return;
    }
    CompleteResponse.Builder response = CompleteResponse.newBuilder();
    if (outcome == Outcome.OUTCOME_REFUSED) {
      Refusal locked = Refusal.newBuilder().setReason(RefusalReason.REFUSAL_REASON_LOCKED).build();
      response.addResults(SettleResult.newBuilder().setOutcome(outcome).setRefusal(locked));
    } else if (outcome != Outcome.OUTCOME_UNSPECIFIED) {
      response.addResults(SettleResult.newBuilder().setOutcome(outcome));
    }
    if (nextError != null) {
      response.setNextError(nextError);
    }
    answer.onNext(response.build());
    answer.onCompleted();
  }

  @Override
  public void fail(FailRequest request, StreamObserver<FailResponse> answer) {
    failures.add(request.getFailures(0));
    SettleResult.Builder result = SettleResult.newBuilder().setOutcome(Outcome.OUTCOME_APPLIED);
    if (failures.size() == 1 && !refusedField.isEmpty()) {
      result.setOutcome(Outcome.OUTCOME_REFUSED).setRefusal(refusal(refusedField));
    }
    answer.onNext(FailResponse.newBuilder().addResults(result).build());
    answer.onCompleted();
  }

  /** Refuses checkpoints. The keeper connects by a heartbeat without renewals. */
  @Override
  public void heartbeat(HeartbeatRequest request, StreamObserver<HeartbeatResponse> answer) {
    HeartbeatResponse.Builder response = HeartbeatResponse.newBuilder();
    for (Renewal renewal : request.getRenewalsList()) {
      renewals.add(renewal);
      HeartbeatResult.Builder result = response.addResultsBuilder();
      if (renewal.hasCheckpoint()) {
        result.setOutcome(Outcome.OUTCOME_REFUSED).setRefusal(refusal("checkpoint"));
      } else {
        result.setOutcome(Outcome.OUTCOME_APPLIED).setTimeLeft(Values.duration(timeLeft));
      }
    }
    answer.onNext(response.build());
    answer.onCompleted();
  }

  private static Refusal refusal(String field) {
    return Refusal.newBuilder().setReason(RefusalReason.REFUSAL_REASON_INVALID_FIELD).setField(field).setMessage("it is too large").build();
  }

  @Override
  public void releaseClaims(ReleaseClaimsRequest request, StreamObserver<ReleaseClaimsResponse> answer) {
    released.addAll(request.getRequestIdsList());
    if (releaseError != null) {
      answer.onError(releaseError);
      return;
    }
    answer.onNext(ReleaseClaimsResponse.getDefaultInstance());
    answer.onCompleted();
  }

  @Override
  public void close() {
    server.shutdownNow();
  }
}
