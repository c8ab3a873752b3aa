package com.example.leasebroker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Any;
import com.google.rpc.BadRequest;
import com.google.rpc.Code;
import io.grpc.InsecureServerCredentials;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Mistakes of the program and odd answers of a broker. They lose no item, and end neither a thread nor the worker. */
class MistakesTest {
  private static final Duration FOREVER = Duration.ofSeconds(Long.MAX_VALUE);

  @TempDir Path folder;
  private final Watcher events = new Watcher();
  private ScriptedBroker broker;

  @BeforeEach
  void start() throws IOException {
    broker = new ScriptedBroker(InsecureServerCredentials.create());
  }

  @AfterEach
  void close() {
    broker.close();
  }

  private Worker.Builder builder(Handler handler) {
    return builder(Queue.of("work", handler).onEvent(events));
  }

  private Worker.Builder builder(Queue queue) {
    return Worker.builder(broker.address(), queue);
  }

  /** Runs a worker until an event has happened. */
  private Event work(Worker.Builder builder, Event.Name until) throws InterruptedException {
    Worker worker = builder.build();
    worker.start();
    events.await(until, 1);
    worker.stop(Duration.ZERO);
    return events.find(until);
  }

  @Test
  void interruptOfRunStopsTheWorker() throws Exception {
    Worker worker = builder((item, context) -> null).build();
    AtomicBoolean interrupted = new AtomicBoolean();
    Thread running =
        Threads.start(
            "run",
            () -> {
              worker.run();
              interrupted.set(Thread.currentThread().isInterrupted());
            });
    events.await(Event.Name.COMPLETED, 1);
    running.interrupt();
    running.join(60_000);
    assertFalse(running.isAlive());
    assertTrue(interrupted.get());
    assertEquals(1, events.count(Event.Name.STOPPED));
  }

  @Test
  void refusedNextClaimDoesNotRefuseTheCompletion() {
    BadRequest fields = BadRequest.newBuilder().addFieldViolations(BadRequest.FieldViolation.newBuilder().setField("next.lease_duration")).build();
    StatusRuntimeException refused =
        StatusProto.toStatusRuntimeException(
            com.google.rpc.Status.newBuilder().setCode(Code.INVALID_ARGUMENT_VALUE).addDetails(Any.pack(fields)).build());
    Handler handler =
        (item, context) -> {
          broker.completeErrors.add(refused);
          broker.claimErrors.add(refused);
          return null;
        };
    assertEquals("ClaimBatch", assertThrows(LeaseBrokerException.class, builder(handler).build()::run).rpc());
    assertEquals(1, events.count(Event.Name.COMPLETED));
    assertEquals(0, events.count(Event.Name.REFUSED));
    assertEquals(1, broker.completes.size());
    assertFalse(broker.completes.get(0).hasNext());
  }

  @Test
  void tokenThatCannotBeReadIsReadAgain() throws Exception {
    broker.token = "known";
    TokenSource token =
        fresh -> {
          if (events.count(Event.Name.RETRY) == 0) {
            throw new IOException("no such file");
          }
          return "known";
        };
    work(builder((item, context) -> null).token(token), Event.Name.COMPLETED);
    Event retry = events.find(Event.Name.RETRY);
    assertEquals("UNAVAILABLE", retry.retry().code());
    assertEquals("the token cannot be read: IOException: no such file", retry.error());
  }

  @Test
  void tokenFunctionThatThrowsAnErrorOrReturnsNullIsCalledAgain() throws Exception {
    broker.token = "known";
    TokenSource token =
        fresh -> {
          long retries = events.count(Event.Name.RETRY);
          if (retries == 0) {
            throw new AssertionError("a bug");
          }
          return retries == 1 ? null : "known";
        };
    work(builder((item, context) -> null).token(token), Event.Name.COMPLETED);
    assertTrue(events.count(Event.Name.RETRY) >= 2);
  }

  @Test
  void deadlineOfTheBrokerIsFollowedByTheUsualWaits() {
    Metadata trailers = new Metadata();
    trailers.put(Metadata.Key.of("grpc-retry-pushback-ms", Metadata.ASCII_STRING_MARSHALLER), "-1");
    broker.wake = call -> Status.DEADLINE_EXCEEDED.asRuntimeException(trailers);
    try (Client client = Client.builder(broker.address()).timeout(Duration.ofSeconds(3)).build()) {
      assertThrows(LeaseBrokerException.class, () -> client.wake("work"));
    }
    int calls = broker.wakes.get();
    // On a busy machine few calls are sent in this time.
    assertTrue(calls >= 2 && calls <= 12, calls + " calls");
  }

  @Test
  void callOfAClosedClientEndsImmediately() throws Exception {
    CountDownLatch called = new CountDownLatch(1);
    broker.wake =
        call -> {
          called.countDown();
          return Status.UNAVAILABLE.asRuntimeException();
        };
    Client client = Client.connect(broker.address());
    Thread closer =
        Threads.start(
            "closer",
            () -> {
              Watcher.await(called);
              client.close();
            });
    for (String applied : List.of("unknown", "no")) {
      LeaseBrokerException error =
          assertTimeoutPreemptively(
              Duration.ofSeconds(60), () -> assertThrows(LeaseBrokerException.class, () -> client.wake("work")));
      assertEquals("Wake: FAILED_PRECONDITION: the client is closed", error.getMessage());
      assertEquals(applied, error.applied());
      closer.join();
    }
  }

  @Test
  void interruptedCallSaysWhetherItWasApplied() {
    broker.wake = call -> Status.UNAVAILABLE.asRuntimeException();
    try (Client client = Client.connect(broker.address())) {
      Thread.currentThread().interrupt();
      LeaseBrokerException error = assertThrows(LeaseBrokerException.class, () -> client.wake("work"));
      assertTrue(Thread.interrupted());
      assertEquals("Wake: CANCELLED: the thread was interrupted", error.getMessage());
    }
  }

  @Test
  void endlessTimesOfTheOptionsAreNoLimits() throws Exception {
    Queue queue = Queue.of("work", (item, context) -> null).lease(FOREVER).timeLimit(FOREVER).stuckAfter(FOREVER).onEvent(events);
    Worker worker = builder(queue).grace(FOREVER).build();
    worker.start();
    events.await(Event.Name.COMPLETED, 1);
    assertTrue(worker.health());
    worker.stop();
    assertEquals(1, events.count(Event.Name.STOPPED));
    try (Client client = Client.builder(broker.address()).timeout(FOREVER).build()) {
      client.wake("work");
    }
  }

  @Test
  void delaysOfABrokerAreCut() {
    var duration = com.google.protobuf.Duration.newBuilder();
    assertEquals(Values.LONGEST, Values.nanos(duration.setSeconds(Long.MAX_VALUE).build()));
    assertEquals(-Values.LONGEST, Values.nanos(duration.setSeconds(Long.MIN_VALUE).build()));
  }

  @Test
  void delaysOfAHandlerAreCut() throws Exception {
    Handler handler =
        (item, context) -> {
          throw new Retry("later", FOREVER);
        };
    work(builder(handler), Event.Name.FAILED);
    assertEquals(Duration.ofDays(366).toSeconds(), broker.failures.get(0).getRetryDelay().getSeconds());
    assertEquals(0, Values.nanos(Values.duration(Duration.ofSeconds(-1))));
  }

  @Test
  void textOfAnEndlessTimeLimitIsWritten() {
    assertEquals("time limit of " + Long.MAX_VALUE + " s", Ending.timeLimitText(FOREVER));
    assertEquals("time limit of 1.5 s", Ending.timeLimitText(Duration.ofMillis(1_500)));
  }

  @Test
  void batchErrorOfAnotherItemFailsTheBatch() throws Exception {
    Item other = Item.of("1", Map.of());
    List<BatchHandler> handlers =
        List.of(
            (items, context) -> {
              throw new BatchException(Map.of(other, new IOException("refused")));
            },
            (items, context) -> Map.of(other, Result.ofColumns(Map.of("Total", 1))));
    for (BatchHandler handler : handlers) {
      try (ScriptedBroker own = new ScriptedBroker(InsecureServerCredentials.create())) {
        Watcher seen = new Watcher();
        Worker worker = Worker.builder(own.address(), Queue.ofBatches("work", 2, handler).onEvent(seen)).build();
        worker.start();
        seen.await(Event.Name.FAILED, 1);
        worker.stop(Duration.ZERO);
        String text = "IllegalArgumentException: item 1 is no item of this batch: use the objects that the handler was given as keys";
        assertEquals(text, seen.find(Event.Name.FAILED).error());
        assertEquals(0, seen.count(Event.Name.COMPLETED));
      }
    }
  }

  @Test
  void itemWithoutAnExceptionIsRefused() {
    Map<Item, Throwable> errors = new java.util.HashMap<>();
    errors.put(Item.of("1", Map.of()), null);
    assertThrows(NullPointerException.class, () -> new BatchException(errors));
  }

  private String wakeError(TokenSource token) {
    try (Client client = Client.builder(broker.address()).token(token).timeout(Duration.ofSeconds(1)).build()) {
      return assertThrows(LeaseBrokerException.class, () -> client.wake("work")).getMessage();
    }
  }

  @Test
  void whiteSpaceAroundATokenIsRemoved() {
    broker.token = "known";
    for (TokenSource token : List.<TokenSource>of(fresh -> "known\r\n", TokenSource.of(" known\n"))) {
      try (Client client = Client.builder(broker.address()).token(token).build()) {
        client.wake("work");
      }
    }
    assertEquals(2, broker.wakes.get());
  }

  @Test
  void emptyTokenFileIsReadAgain() throws Exception {
    Path file = folder.resolve("token");
    Files.writeString(file, "");
    TokenSource token = TokenSource.ofFile(file);
    assertTrue(wakeError(token).contains("the token is empty"));
    Files.writeString(file, "known");
    try (Client client = Client.builder(broker.address()).token(token).build()) {
      client.wake("work");
    }
  }

  @Test
  void malformedTokenIsAnErrorWithoutTheToken() {
    for (String token : List.of("secr\net", "secr\u00e9t", "secr\u0000t")) {
      String error = wakeError(fresh -> token);
      assertTrue(error.contains("the token cannot be read") && error.contains("character 5"), error);
      assertFalse(error.contains("secr"), error);
      error = assertThrows(IllegalArgumentException.class, () -> TokenSource.of(token)).getMessage();
      assertTrue(error.contains("token") && !error.contains("secr"), error);
    }
    assertTrue(wakeError(fresh -> " ").contains("the token is empty"));
    assertEquals(0, broker.wakes.get());
  }

  @Test
  void workerWhoseTokenFunctionDoesNotReturnStops() throws Exception {
    CountDownLatch asked = new CountDownLatch(2); // By the keeper and by the poller.
    CountDownLatch never = new CountDownLatch(1);
    TokenSource token =
        fresh -> {
          asked.countDown();
          Watcher.await(never);
          return "late";
        };
    Worker worker = builder((item, context) -> null).token(token).build();
    worker.start();
    assertTrue(asked.await(30, TimeUnit.SECONDS));
    assertTimeoutPreemptively(Duration.ofSeconds(60), () -> worker.stop(Duration.ZERO));
    never.countDown();
  }

  @Test
  void callEndsWhileATokenFunctionDoesNotReturn() {
    CountDownLatch never = new CountDownLatch(1);
    TokenSource token =
        fresh -> {
          Watcher.await(never);
          return "late";
        };
    assertTimeoutPreemptively(Duration.ofSeconds(60), () -> assertTrue(wakeError(token).contains("the token cannot be read")));
    never.countDown();
  }

  /** Throws an error in the place of its message. */
  private static final class Broken extends RuntimeException {
    private static final long serialVersionUID = 1;

    @Override
    public String getMessage() {
      throw new AssertionError("no message");
    }
  }

  @SuppressWarnings("unchecked")
  private static <T extends Throwable> void raise(Throwable error) throws T {
    throw (T) error;
  }

  @Test
  void exceptionWithoutAReadableMessageFailsItsItem() throws Exception {
    Handler handler =
        (item, context) -> {
          throw new Broken();
        };
    assertEquals("Broken", work(builder(handler), Event.Name.FAILED).error());
  }

  @Test
  void resultsThatCannotBeReadFailTheBatch() throws Exception {
    BatchHandler handler =
        (items, context) ->
            new java.util.AbstractMap<>() {
              @Override
              public java.util.Set<Entry<Item, Result>> entrySet() {
                throw new AssertionError("a bug");
              }
            };
    Worker worker = builder(Queue.ofBatches("work", 2, handler).onEvent(events)).build();
    worker.start();
    events.await(Event.Name.FAILED, 1);
    worker.stop(Duration.ZERO);
    assertEquals("AssertionError: a bug", events.find(Event.Name.FAILED).error());
  }

  @Test
  void observerCanStopTheWorker() {
    Worker[] worker = new Worker[1];
    Consumer<Event> observer =
        event -> {
          events.accept(event);
          if (event.name() == Event.Name.COMPLETED) {
            worker[0].stop();
          }
        };
    worker[0] = builder(Queue.of("work", (item, context) -> null).onEvent(observer)).build();
    assertTimeoutPreemptively(Duration.ofSeconds(60), worker[0]::run);
    assertEquals(1, events.count(Event.Name.STOPPED));
  }

  @Test
  void executorThatWasShutDownStopsTheWorker() {
    ExecutorService executor = Executors.newSingleThreadExecutor();
    executor.shutdown();
    Worker worker = builder(Queue.of("work", (item, context) -> null).executor(executor).onEvent(events)).build();
    String text = assertThrows(IllegalStateException.class, worker::run).getMessage();
    assertEquals("the executor of the handlers was shut down", text);
    assertFalse(worker.health());
  }

  @Test
  void handlerCanStopTheWorker() {
    Worker[] worker = new Worker[1];
    Handler handler =
        (item, context) -> {
          worker[0].stop();
          return null;
        };
    worker[0] = builder(handler).build();
    assertTimeoutPreemptively(Duration.ofSeconds(60), worker[0]::run);
    assertEquals(1, events.count(Event.Name.COMPLETED));
  }

  @Test
  void workerStopsAlthoughAnObserverBlocks() throws Exception {
    CountDownLatch end = new CountDownLatch(1);
    Consumer<Event> observer =
        event -> {
          events.accept(event);
          if (event.name() == Event.Name.COMPLETED) {
            Watcher.await(end);
          }
        };
    Worker worker = builder(Queue.of("work", (item, context) -> null).onEvent(observer)).build();
    worker.start();
    events.await(Event.Name.COMPLETED, 1);
    assertTimeoutPreemptively(
        Duration.ofSeconds(60), () -> assertThrows(IllegalStateException.class, () -> worker.stop(Duration.ZERO)));
    end.countDown();
  }

  @Test
  void observerThatThrowsIsNotCalledAgain() throws Exception {
    for (Throwable error : List.of(new Throwable("checked"), new AssertionError("a bug"), new Broken())) {
      Watcher seen = new Watcher();
      Consumer<Event> observer =
          event -> {
            seen.accept(event);
            MistakesTest.<RuntimeException>raise(error);
          };
      try (ScriptedBroker own = new ScriptedBroker(InsecureServerCredentials.create())) {
        CountDownLatch handled = new CountDownLatch(1);
        Handler handler =
            (item, context) -> {
              handled.countDown();
              return null;
            };
        Worker worker = Worker.builder(own.address(), Queue.of("work", handler).onEvent(observer)).build();
        worker.start();
        assertTrue(handled.await(30, TimeUnit.SECONDS));
        worker.stop();
        assertEquals(1L, worker.counters().get(Event.Name.COMPLETED));
        assertTrue(seen.count(Event.Name.COMPLETED) == 0);
      }
    }
  }
}
