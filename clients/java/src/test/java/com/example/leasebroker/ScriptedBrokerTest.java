package com.example.leasebroker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.example.leasebroker.v1.CallError;
import com.example.leasebroker.v1.ClaimBatchResponse;
import com.example.leasebroker.v1.CompleteRequest;
import com.example.leasebroker.v1.LeaseServiceGrpc.LeaseServiceBlockingStub;
import com.example.leasebroker.v1.NextClaim;
import com.example.leasebroker.v1.Outcome;
import com.example.leasebroker.v1.SettleResult;
import com.example.leasebroker.v1.WakeRequest;
import com.google.protobuf.Any;
import com.google.rpc.Code;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.InsecureServerCredentials;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.TlsServerCredentials;
import io.grpc.protobuf.StatusProto;
import java.io.ByteArrayInputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ScriptedBrokerTest {
  @TempDir Path folder;

  private static StatusRuntimeException unavailable(String pushback) {
    Metadata trailers = new Metadata();
    trailers.put(Metadata.Key.of("grpc-retry-pushback-ms", Metadata.ASCII_STRING_MARSHALLER), pushback);
    return Status.UNAVAILABLE.withDescription("away").asRuntimeException(trailers);
  }

  @Test
  void retryWaitsForThePushback() throws Exception {
    try (ScriptedBroker broker = new ScriptedBroker(InsecureServerCredentials.create()); Client client = Client.connect(broker.address())) {
      broker.wake = call -> call == 1 ? unavailable("300") : null;
      long begun = System.nanoTime();
      client.wake("work");
      assertTrue(System.nanoTime() - begun >= 300_000_000);
      assertEquals(2, broker.wakes.get());
    }
  }

  @Test
  void pauseBeforeARetryDoesNotOutlastTheLease() throws Exception {
    try (ScriptedBroker broker = new ScriptedBroker(InsecureServerCredentials.create())) {
      broker.wake = call -> call <= 5 ? Status.UNAVAILABLE.asRuntimeException() : null;
      Transport transport = new Transport(List.of(broker.address()), Credentials.plaintext(), warning -> {});
      Caller caller = new Caller(transport, null, failure -> {}, retry -> {});
      // Heartbeats extend the lease of 400 ms meanwhile, so that 300 ms are always left.
      LongSupplier until = () -> Clock.now() + 300 * Clock.MILLISECOND;
      Caller.Limits limits = new Caller.Limits(until, 200 * Clock.MILLISECOND, new Abort(), () -> {});
      assertTrue(caller.call("Wake", LeaseServiceBlockingStub::wake, WakeRequest.getDefaultInstance(), limits).attempts() >= 6);
      transport.close();
    }
  }

  @Test
  void negativePushbackEndsTheCall() throws Exception {
    try (ScriptedBroker broker = new ScriptedBroker(InsecureServerCredentials.create()); Client client = Client.connect(broker.address())) {
      broker.wake = call -> unavailable("-1");
      assertThrows(LeaseBrokerException.class, () -> client.wake("work"));
      assertEquals(1, broker.wakes.get());
    }
  }

  @Test
  void errorsThatAreNotRetried() throws Exception {
    List<Status> all =
        List.of(Status.INVALID_ARGUMENT, Status.NOT_FOUND, Status.FAILED_PRECONDITION, Status.PERMISSION_DENIED, Status.RESOURCE_EXHAUSTED);
    try (ScriptedBroker broker = new ScriptedBroker(InsecureServerCredentials.create()); Client client = Client.connect(broker.address())) {
      for (Status status : all) {
        broker.wake = call -> status.asRuntimeException();
        assertEquals(status.getCode(), assertThrows(LeaseBrokerException.class, () -> client.wake("work")).code());
      }
      assertEquals(all.size(), broker.wakes.get());
    }
  }

  private static StatusRuntimeException withApplied(Code code, String reason, String applied) {
    ErrorInfo info = ErrorInfo.newBuilder().setDomain("leasebroker").setReason(reason).putMetadata("applied", applied).build();
    return StatusProto.toStatusRuntimeException(
        com.google.rpc.Status.newBuilder().setCode(code.getNumber()).addDetails(Any.pack(info)).build());
  }

  @Test
  void errorSaysWhetherACallWasApplied() throws Exception {
    StatusRuntimeException unchanged = withApplied(Code.NOT_FOUND, "QUEUE_NOT_FOUND", "no");
    record Case(List<StatusRuntimeException> errors, String applied) {}
    List<Case> cases =
        List.of(
            new Case(List.of(unchanged), "no"),
            new Case(List.of(Status.NOT_FOUND.asRuntimeException()), "unknown"),
            new Case(List.of(Status.UNAVAILABLE.asRuntimeException(), unchanged), "unknown"),
            new Case(List.of(withApplied(Code.UNAVAILABLE, "STORE_UNAVAILABLE", "no"), unchanged), "no"),
            new Case(List.of(withApplied(Code.INTERNAL, "INTERNAL", "unknown")), "unknown"));
    for (Case each : cases) {
      try (ScriptedBroker broker = new ScriptedBroker(InsecureServerCredentials.create()); Client client = Client.connect(broker.address())) {
        broker.wake = call -> each.errors().get(call - 1);
        assertEquals(each.applied(), assertThrows(LeaseBrokerException.class, () -> client.wake("work")).applied());
      }
    }
  }

  private static Watcher work(ScriptedBroker broker, Event.Name until) throws InterruptedException {
    return work(broker, (item, context) -> null, until);
  }

  private static Watcher work(ScriptedBroker broker, Handler handler, Event.Name until) throws InterruptedException {
    Watcher events = new Watcher();
    Worker worker = Worker.builder(broker.address(), Queue.of("work", handler).onEvent(events)).build();
    worker.start();
    events.await(until, 1);
    worker.stop(Duration.ZERO);
    return events;
  }

  @Test
  void claimAndNextClaimNameTheGroups() throws Exception {
    try (ScriptedBroker broker = new ScriptedBroker(InsecureServerCredentials.create())) {
      List<String> groups = List.of("42", "43");
      Watcher events = new Watcher();
      Worker worker = Worker.builder(broker.address(), Queue.of("work", (item, context) -> null).groups(groups).onEvent(events)).build();
      worker.start();
      events.await(Event.Name.COMPLETED, 1);
      worker.stop(Duration.ZERO);
      assertEquals(groups, broker.claimRequests.get(0).getGroupsList());
      assertEquals(groups, broker.completes.get(0).getNext().getGroupsList());
    }
  }

  @Test
  void claimsThatDoNotWaitHaveAPause() throws Exception {
    try (ScriptedBroker broker = new ScriptedBroker(InsecureServerCredentials.create())) {
      broker.isEmpty = true;
      Watcher events = new Watcher();
      Worker worker =
          Worker.builder(broker.address(), Queue.of("work", (item, context) -> null).wait(Duration.ZERO).onEvent(events)).build();
      worker.start();
      events.await(Event.Name.CONNECTED, 1);
      long begun = System.nanoTime();
      int claims = broker.claimRequests.size();
      while (broker.claimRequests.size() < claims + 5) {
        Thread.sleep(1);
      }
      // Each pause has at least 50 ms.
      assertTrue(System.nanoTime() - begun >= 200_000_000);
      worker.stop(Duration.ZERO);
    }
  }

  @Test
  void leasesThatAreLostTogetherAreLoggedInOneLine() {
    WarningLog log = new WarningLog();
    State state = new State(Options.of(Queue.of("work", (item, context) -> null), "worker", log), new EventLog("work", null, log));
    List<HeldLease> leases = IntStream.range(0, 12).mapToObj(key -> new HeldLease(Item.of("" + key, Map.of()))).toList();
    leases.get(0).run = new Run(state, leases.subList(0, 1));
    state.update(() -> leases.forEach(lease -> state.lose(lease, "moved")));
    String named = IntStream.range(1, 11).mapToObj(key -> key + " (attempt 1)").collect(Collectors.joining(", "));
    assertEquals(
        List.of(
            "queue work: item 0 (attempt 1): processed, but another worker may process it again: moved",
            "queue work: items " + named + " and 1 other: the lease has ended before the handler: moved"),
        List.copyOf(log.warnings));
  }

  @Test
  void endingsThatAreNotAppliedAreLogged() {
    WarningLog log = new WarningLog();
    State state = new State(Options.of(Queue.of("work", (item, context) -> null), "worker", log), new EventLog("work", null, log));
    List<HeldLease> leases = Stream.of("a", "b", "c", "d").map(key -> new HeldLease(Item.of(key, Map.of()))).toList();
    new Run(state, leases);
    List<Ending> endings =
        List.of(
            Ending.completed(leases.get(0), null),
            Ending.completed(leases.get(1), null),
            Ending.failed(leases.get(2), ""),
            Ending.released(leases.get(3), null));
    state.update(() -> endings.forEach(state::settle));
    Settler settler = new Settler(state, null, null, error -> {});
    List<SettleResult> results =
        Stream.of(Outcome.OUTCOME_LEASE_LOST, Outcome.OUTCOME_GONE).map(outcome -> SettleResult.newBuilder().setOutcome(outcome).build()).toList();
    var settlement = new Settler.Settlement(results, ClaimBatchResponse.getDefaultInstance(), null);
    settler.note(call(state, endings.subList(0, 2)), new Caller.Answer<>(settlement, 0, 0, 0, 1));
    Failure failure = Failure.of(Status.Code.UNAVAILABLE, "no answer", Failure.APPLIED_UNKNOWN);
    settler.note(call(state, endings.subList(2, 3)), new LeaseBrokerException("Fail", failure));
    settler.note(call(state, endings.subList(3, 4)), new LeaseBrokerException("Release", failure));
    String processed = " (attempt 1): processed, but another worker may process it again: ";
    assertEquals(
        List.of(
            "queue work: item a" + processed + "the broker has ended the lease",
            "queue work: item b" + processed + "the row is gone",
            "queue work: item c" + processed + "Fail: UNAVAILABLE: no answer",
            "queue work: item d (attempt 1): the lease has ended before the handler: Release: UNAVAILABLE: no answer"),
        List.copyOf(log.warnings));
  }

  private static Settler.Call call(State state, List<Ending> group) {
    return new Settler.Call(group, 0, null, new Way(state, group));
  }

  @Test
  void checkpointAfterTheEndOfTheHandlerIsDropped() {
    System.Logger logger = System.getLogger("test");
    State state = new State(Options.of(Queue.of("work", (item, context) -> null), "worker", logger), new EventLog("work", null, logger));
    HeldLease lease = new HeldLease(Item.of("1", Map.of()));
    state.update(() -> state.settle(Ending.completed(lease, null)));
    state.update(() -> state.saveCheckpoint(lease, new byte[65_537]));
    assertFalse(state.isRefused(65_537));
  }

  @Test
  void settlementWithoutAConnectionAbandonsNoClaim() {
    System.Logger logger = System.getLogger("test");
    State state = new State(Options.of(Queue.of("work", (item, context) -> null), "worker", logger), new EventLog("work", null, logger));
    List<Ending> group = List.of(Ending.failed(new HeldLease(Item.of("1", Map.of())), ""));
    Settler.Call call = new Settler.Call(group, 1, NextClaim.newBuilder().setRequestId("one").build(), new Way(state, group));
    Failure failure = Failure.of(Status.Code.UNAVAILABLE, "no connection", Failure.APPLIED_NO);
    new Settler(state, null, null, error -> {}).note(call, new LeaseBrokerException("Complete", failure));
    assertEquals(List.of(), state.abandoned);
  }

  @Test
  void refusedReleaseOfClaimsIsSentOnce() throws Exception {
    try (ScriptedBroker broker = new ScriptedBroker(InsecureServerCredentials.create())) {
      broker.releaseError = Status.PERMISSION_DENIED.asRuntimeException();
      WarningLog log = new WarningLog();
      State state = new State(Options.of(Queue.of("work", (item, context) -> null), "worker", log), new EventLog("work", null, log));
      state.abandoned.add("one");
      Transport transport = new Transport(List.of(broker.address()), Credentials.plaintext(), text -> {});
      Poller poller = new Poller(state, new Caller(transport, null, failure -> {}, retry -> {}), null, error -> {});
      for (boolean forget : List.of(false, true)) {
        poller.releaseAbandoned(forget, Clock.NEVER);
      }
      assertEquals(List.of("one"), broker.released);
      assertEquals(1, log.warnings.size());
      transport.close();
    }
  }

  @Test
  void lastReleaseOfClaimsEndsWithTheStop() throws Exception {
    System.Logger logger = System.getLogger("test");
    State state = new State(Options.of(Queue.of("work", (item, context) -> null), "worker", logger), new EventLog("work", null, logger));
    state.abandoned.add("one");
    // No server listens there.
    Transport transport = new Transport(List.of("127.0.0.1:1"), Credentials.plaintext(), text -> {});
    List<Failure> attempts = new ArrayList<>();
    new Poller(state, new Caller(transport, null, attempts::add, retry -> {}), null, error -> {}).releaseAbandoned(true, Clock.now());
    assertEquals(1, attempts.size());
    assertEquals(List.of("one"), state.abandoned);
    transport.close();
  }

  @Test
  void refusedHeartbeatIsSentAgainAtOnceWithoutCheckpoint() throws Exception {
    try (ScriptedBroker broker = new ScriptedBroker(InsecureServerCredentials.create())) {
      broker.timeLeft = Duration.ofSeconds(15); // The period of the heartbeats is 5 s.
      Handler handler =
          (item, context) -> {
            context.checkpoint(new byte[5_000]);
            assertEquals(5_000, broker.renewals.poll(60, TimeUnit.SECONDS).getCheckpoint().size());
            assertFalse(broker.renewals.poll(4, TimeUnit.SECONDS).hasCheckpoint());
            return null;
          };
      assertEquals(0, work(broker, handler, Event.Name.COMPLETED).count(Event.Name.LOST));
    }
  }

  @Test
  void refusedCompletionIsLoggedWithTheReason() throws Exception {
    try (ScriptedBroker broker = new ScriptedBroker(InsecureServerCredentials.create())) {
      broker.completeErrors.add(Status.INVALID_ARGUMENT.withDescription("12.5 is a float").asRuntimeException());
      WarningLog log = new WarningLog();
      Watcher events = new Watcher();
      Worker worker = Worker.builder(broker.address(), Queue.of("work", (item, context) -> null).onEvent(events)).logger(log).build();
      worker.start();
      events.await(Event.Name.FAILED, 1);
      worker.stop(Duration.ZERO);
      List<String> refusals = log.warnings.stream().filter(line -> line.startsWith("ending refused")).toList();
      assertEquals(List.of("ending refused: complete item 1: 12.5 is a float"), refusals);
    }
  }

  @Test
  void refusedFailureIsSentAgainWithoutTheRefusedField() throws Exception {
    for (String field : List.of("retry_delay", "checkpoint")) {
      try (ScriptedBroker broker = new ScriptedBroker(InsecureServerCredentials.create())) {
        broker.refusedField = field;
        Handler handler =
            (item, context) -> {
              context.checkpoint("page 7".getBytes(StandardCharsets.UTF_8));
              throw new Retry("later", Duration.ofMinutes(1));
            };
        assertEquals(field + ": it is too large", work(broker, handler, Event.Name.FAILED).find(Event.Name.REFUSED).reason());
        var second = broker.failures.get(0).toBuilder();
        assertEquals(broker.failures.get(1), (field.equals("checkpoint") ? second.clearCheckpoint() : second.clearRetryDelay()).build());
      }
    }
  }

  @Test
  void stopWaitsForALockedRow() throws Exception {
    try (ScriptedBroker broker = new ScriptedBroker(InsecureServerCredentials.create())) {
      broker.complete = call -> call <= 2 ? Outcome.OUTCOME_REFUSED : Outcome.OUTCOME_APPLIED;
      Watcher events = work(broker, Event.Name.RETRY);
      assertEquals(1, events.count(Event.Name.COMPLETED));
      assertEquals("LOCKED", events.find(Event.Name.RETRY).reason());
      assertEquals(2, events.count(Event.Name.RETRY));
      assertEquals(0, events.count(Event.Name.REFUSED));
    }
  }

  @Test
  void errorOfTheNextClaimIsThatOfAClaim() throws Exception {
    try (ScriptedBroker broker = new ScriptedBroker(InsecureServerCredentials.create())) {
      Duration delay = Duration.ofMillis(300);
      broker.nextError =
          CallError.newBuilder()
              .setCode(Code.UNAVAILABLE_VALUE)
              .setReason("STORE_UNAVAILABLE")
              .setRetryDelay(Values.duration(delay))
              .build();
      Event retry = work(broker, Event.Name.RETRY).find(Event.Name.RETRY);
      assertEquals(new Event.Retrying("ClaimBatch", "UNAVAILABLE", 1, delay), retry.retry());
      assertEquals("STORE_UNAVAILABLE", retry.reason());
      assertTrue(broker.released.contains(broker.completes.get(0).getNext().getRequestId()));
    }
    try (ScriptedBroker broker = new ScriptedBroker(InsecureServerCredentials.create())) {
      broker.nextError =
          CallError.newBuilder().setCode(Code.PERMISSION_DENIED_VALUE).setReason("ROLE_MISSING").putMetadata("applied", "no").build();
      Worker worker = Worker.builder(broker.address(), Queue.of("work", (item, context) -> null)).build();
      LeaseBrokerException error = assertThrows(LeaseBrokerException.class, worker::run);
      assertEquals("ClaimBatch ROLE_MISSING", error.rpc() + " " + error.reason());
      assertFalse(broker.released.contains(broker.completes.get(0).getNext().getRequestId()));
    }
  }

  @Test
  void answerWithoutAResultIsAnError() throws Exception {
    try (ScriptedBroker broker = new ScriptedBroker(InsecureServerCredentials.create())) {
      broker.complete = call -> Outcome.OUTCOME_UNSPECIFIED;
      String error = work(broker, Event.Name.UNKNOWN).find(Event.Name.UNKNOWN).error();
      assertTrue(error.contains("0 results for 1 entries"), error);
    }
  }

  @Test
  void answerToAnEnqueueWithoutAResultIsNotTemporary() {
    // The rows may have been added.
    assertFalse(new LeaseBrokerException("Enqueue", Failure.ofCount(0, 1)).temporary());
  }

  @Test
  void rowThatIsGoneAfterARetryWasCompleted() throws Exception {
    try (ScriptedBroker broker = new ScriptedBroker(InsecureServerCredentials.create())) {
      broker.complete = call -> call == 1 ? null : Outcome.OUTCOME_GONE;
      assertEquals(1, work(broker, Event.Name.COMPLETED).count(Event.Name.RETRY));
      assertEquals(2, broker.completes.size());
      String id = broker.completes.get(0).getNext().getRequestId();
      assertFalse(id.isEmpty());
      assertEquals(id, broker.completes.get(1).getNext().getRequestId());
    }
  }

  @Test
  void rowThatIsGoneAtFirstIsUnknown() throws Exception {
    try (ScriptedBroker broker = new ScriptedBroker(InsecureServerCredentials.create())) {
      broker.complete = call -> Outcome.OUTCOME_GONE;
      assertEquals(0, work(broker, Event.Name.UNKNOWN).count(Event.Name.COMPLETED));
    }
  }

  @Test
  void refusedTokenIsReadAgainOnce() throws Exception {
    Path file = folder.resolve("token");
    Files.writeString(file, "old\n");
    try (ScriptedBroker broker = new ScriptedBroker(InsecureServerCredentials.create());
        Client client = Client.builder(broker.address()).token(TokenSource.ofFile(file)).build()) {
      broker.token = "old";
      client.wake("work");
      broker.token = "new";
      Files.writeString(file, "new\n");
      client.wake("work");
      assertEquals(3, broker.wakes.get());
      broker.token = "another";
      assertThrows(LeaseBrokerException.class, () -> client.wake("work"));
      assertEquals(5, broker.wakes.get());
    }
  }

  @Test
  void refusedTokenEndsTheWorker() throws Exception {
    try (ScriptedBroker broker = new ScriptedBroker(InsecureServerCredentials.create())) {
      broker.token = "valid";
      Worker worker = Worker.builder(broker.address(), Queue.of("work", (item, context) -> null)).token(TokenSource.of("wrong")).build();
      assertEquals(Status.Code.UNAUTHENTICATED, assertThrows(LeaseBrokerException.class, worker::run).code());
    }
  }

  private static StatusRuntimeException withWait(Code code, String reason) {
    ErrorInfo info = ErrorInfo.newBuilder().setDomain("leasebroker").setReason(reason).build();
    RetryInfo wait = RetryInfo.newBuilder().setRetryDelay(Values.duration(Duration.ofMillis(10))).build();
    return StatusProto.toStatusRuntimeException(
        com.google.rpc.Status.newBuilder().setCode(code.getNumber()).addDetails(Any.pack(info)).addDetails(Any.pack(wait)).build());
  }

  @Test
  void refusalWithAWaitDoesNotEndTheWorker() throws Exception {
    List<StatusRuntimeException> refusals =
        List.of(withWait(Code.UNAUTHENTICATED, "CREDENTIALS_INVALID"), withWait(Code.RESOURCE_EXHAUSTED, "IDENTITY_LIMIT"));
    try (ScriptedBroker broker = new ScriptedBroker(InsecureServerCredentials.create())) {
      broker.claimErrors.addAll(refusals);
      broker.claimErrors.addAll(refusals);
      broker.completeErrors.addAll(refusals);
      Watcher events = new Watcher();
      Worker worker =
          Worker.builder(broker.address(), Queue.of("work", (item, context) -> null).onEvent(events)).token(TokenSource.of("known")).build();
      worker.start();
      events.await(Event.Name.COMPLETED, 1);
      worker.stop(Duration.ZERO);
      assertEquals(6, events.count(Event.Name.RETRY));
    }
  }

  @Test
  void tlsWithCertificatesAndToken() throws Exception {
    Certificate server = Certificate.of("broker.example", folder);
    Certificate worker = Certificate.of("worker", folder);
    var credentials =
        TlsServerCredentials.newBuilder()
            .keyManager(new ByteArrayInputStream(server.cert()), new ByteArrayInputStream(server.key()))
            .trustManager(new ByteArrayInputStream(worker.cert()))
            .clientAuth(TlsServerCredentials.ClientAuth.REQUIRE)
            .build();
    try (ScriptedBroker broker = new ScriptedBroker(credentials)) {
      broker.token = "secret";
      wake(broker, Credentials.tls(server.cert(), worker.cert(), worker.key(), "broker.example"));
      List<Credentials> refused =
          List.of(
              Credentials.tls(server.cert(), worker.cert(), worker.key(), null),
              Credentials.tls(server.cert(), null, null, "broker.example"),
              Credentials.tls(worker.cert(), worker.cert(), worker.key(), "broker.example"));
      for (Credentials each : refused) {
        String text = assertThrows(LeaseBrokerException.class, () -> wake(broker, each)).getMessage();
        assertEquals(1, text.lines().count(), text);
        assertTrue(each != refused.get(2) || text.contains("unable to find valid certification path"), text);
      }
      assertEquals(1, broker.wakes.get());
    }
  }

  /** Sends a request once. */
  private static void wake(ScriptedBroker broker, Credentials credentials) {
    Transport transport = new Transport(List.of(broker.address()), credentials, text -> {});
    Caller caller = new Caller(transport, TokenSource.of("secret"), failure -> {}, retry -> {});
    var request = com.example.leasebroker.v1.WakeRequest.getDefaultInstance();
    var once = new Caller.Limits(() -> Clock.NEVER, Caller.ATTEMPT_TIMEOUT, new Abort(), () -> {}, failure -> true);
    try {
      caller.call("Wake", (stub, wake) -> stub.wake(wake), request, once);
    } finally {
      transport.close();
    }
  }

  @Test
  void certificateWithoutItsKeyIsRefused() {
    byte[] text = "no PEM".getBytes(StandardCharsets.US_ASCII);
    assertThrows(IllegalArgumentException.class, () -> Credentials.tls(null, text, null, null));
  }

  @Test
  void malformedCertificatesAreRefused() throws Exception {
    Certificate good = Certificate.of("worker", folder);
    byte[] garbage = "garbage".getBytes(StandardCharsets.US_ASCII);
    for (byte[] ca : List.of(garbage, new byte[0], Arrays.copyOf(good.cert(), 300))) {
      assertThrows(IllegalArgumentException.class, () -> Credentials.tls(ca, null, null, null));
    }
    for (byte[] key : List.of(garbage, new byte[0])) {
      assertThrows(IllegalArgumentException.class, () -> Credentials.tls(null, good.cert(), key, null));
    }
    assertThrows(IllegalArgumentException.class, () -> Credentials.tls(null, garbage, good.key(), null));
  }

  @Test
  void malformedFilesKeepTheConnection() throws Exception {
    byte[] good = Certificate.of("broker.example", folder).cert();
    Path ca = Files.write(folder.resolve("ca.crt"), good);
    List<String> warnings = new ArrayList<>();
    Transport transport = new Transport(List.of("localhost:1"), Credentials.tls(ca, null, null, null), warnings::add);
    Transport.Broker before = transport.route();
    for (byte[] changed : List.of(Arrays.copyOf(good, 300), "garbage".getBytes(StandardCharsets.US_ASCII), new byte[0])) {
      warnings.clear();
      Files.write(ca, changed);
      transport.lookAtFiles(Clock.now());
      transport.lookAtFiles(Clock.now());
      assertSame(before, transport.route());
      assertEquals(1, warnings.size());
    }
    Files.write(ca, Certificate.of("new.example", folder).cert());
    transport.lookAtFiles(Clock.now());
    assertNotSame(before, transport.route());
    transport.close();
  }

  @Test
  void callsGoToTheBrokerThatAnswers() throws Exception {
    try (ScriptedBroker broker = new ScriptedBroker(InsecureServerCredentials.create());
        Client client = Client.connect("127.0.0.1:1," + broker.address())) {
      client.wake("work");
      assertEquals(1, broker.wakes.get());
    }
  }
}
