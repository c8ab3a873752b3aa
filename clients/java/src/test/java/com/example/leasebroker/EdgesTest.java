package com.example.leasebroker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.example.leasebroker.v1.Lease;
import com.example.leasebroker.v1.LeaseServiceGrpc.LeaseServiceBlockingStub;
import com.example.leasebroker.v1.WakeRequest;
import io.grpc.InsecureServerCredentials;
import io.opentelemetry.api.trace.Span;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.ResourceBundle;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Threads of handlers, brokers that hang, several queues, interceptors. */
class EdgesTest {
  @TempDir Path folder;

  private static void until(BooleanSupplier condition) throws InterruptedException {
    long limit = Clock.now() + 60 * Clock.SECOND;
    while (!condition.getAsBoolean()) {
      assertTrue(Clock.now() < limit, "the condition was not met");
      Thread.sleep(10);
    }
  }

  @Test
  void signalStopsAllWorkersThatRun() throws Exception {
    AtomicInteger first = new AtomicInteger();
    AtomicInteger second = new AtomicInteger();
    System.Logger logger = System.getLogger("test");
    Signals ended = new Signals(first::incrementAndGet, logger);
    Signals running = new Signals(second::incrementAndGet, logger);
    raiseSignal();
    until(() -> first.get() == 1 && second.get() == 1);
    ended.close();
    raiseSignal();
    until(() -> second.get() == 2);
    assertEquals(1, first.get());
    running.close();
  }

  private static void raiseSignal() throws ReflectiveOperationException {
    Class<?> type = Class.forName("sun.misc.Signal");
    type.getMethod("raise", type).invoke(null, type.getConstructor(String.class).newInstance("TERM"));
  }

  @Test
  void handlersThatWaitForEachOtherRunTogether() throws Exception {
    int number = 50;
    CountDownLatch together = new CountDownLatch(number);
    CountDownLatch returned = new CountDownLatch(number);
    HandlerThreads threads =
        new HandlerThreads(
            run -> {
              together.countDown();
              Watcher.await(together);
              returned.countDown();
            },
            (run, error) -> {});
    threads.start(runs(number - 1));
    threads.start(runs(1));
    assertTrue(returned.await(30, TimeUnit.SECONDS), () -> together.getCount() + " handlers wait for a thread");
    threads.shutdown();
  }

  @Test
  void handlersWithoutAThreadAreRefused() {
    List<Run> refused = new ArrayList<>();
    HandlerThreads threads = new HandlerThreads(run -> {}, (run, error) -> refused.add(run));
    threads.shutdown();
    List<Run> runs = runs(3);
    threads.start(runs);
    assertEquals(runs, refused);
  }

  private static List<Run> runs(int number) {
    return Stream.generate(() -> new Run(null, List.of())).limit(number).toList();
  }

  @Test
  void eachUnexpectedExceptionOfABatchIsLogged() {
    List<String> lines = new ArrayList<>();
    System.Logger logger =
        new System.Logger() {
          @Override
          public String getName() {
            return "test";
          }

          @Override
          public boolean isLoggable(Level level) {
            return true;
          }

          @Override
          public void log(Level level, ResourceBundle bundle, String text, Throwable error) {
            lines.add(text + ": " + error.getClass().getSimpleName());
          }

          @Override
          public void log(Level level, ResourceBundle bundle, String format, Object... values) {}
        };
    List<BatchHandler> handlers =
        List.of(
            (items, context) -> {
              throw new BatchException(Map.of(items.get(0), new IOException("a"), items.get(1), new Retry("b")));
            },
            (items, context) -> {
              throw new IllegalStateException("outer", new DeadLetter("no customer"));
            },
            (items, context) -> Map.of(items.get(1), new Result(null, List.of())),
            (items, context) -> {
              throw new IOException("all");
            });
    for (BatchHandler handler : handlers) {
      Options options = Options.of(Queue.ofBatches("work", 2, handler), "worker", logger);
      State state = new State(options, new EventLog("work", null, logger));
      state.start = runs -> runs.forEach(new Runner(state, handler)::run);
      state.update(() -> state.accept(List.of(lease("1"), lease("2")), state.reserveSlots(), Clock.now(), Clock.now()));
      assertEquals(2, state.endings.size());
    }
    assertEquals(
        List.of(
            "the handler of item 1 failed: IOException", "the handler of item 1, 2 failed: IllegalStateException",
            "the handler of item 2 failed: NullPointerException", "the handler of item 1, 2 failed: IOException"),
        lines);
  }

  @Test
  void handlersOfLostAndReleasedItemsDoNotBegin() {
    Watcher events = new Watcher();
    List<String> handled = new ArrayList<>();
    BatchHandler handler =
        (items, context) -> {
          handled.add(items.get(0).key());
          return null;
        };
    Options options =
        Options.of(Queue.ofBatches("work", 1, handler).concurrency(3).onEvent(events), "worker", System.getLogger("test"));
    State state = new State(options, new EventLog("work", events, options.logger()));
    List<Run> waiting = new ArrayList<>();
    state.start = waiting::addAll;
    List<Lease> leases = Stream.of("begun", "lost", "released").map(EdgesTest::lease).toList();
    state.update(() -> state.accept(leases, state.reserveSlots(), Clock.now(), Clock.now()));
    Runner runner = new Runner(state, handler);
    runner.run(waiting.get(0));
    state.update(() -> state.lose(state.held.get("lost"), "expired"));
    state.update(state::stop);
    waiting.subList(1, 3).forEach(runner::run);
    assertEquals(List.of("begun"), handled);
    assertEquals(1, events.count(Event.Name.STARTED));
    assertEquals(List.of("begun", "released"), state.endings.stream().map(ending -> ending.lease().id).toList());
    assertTrue(state.runs.isEmpty());
  }

  private static Lease lease(String id) {
    var item = com.example.leasebroker.v1.Item.newBuilder().setKey(id);
    return Lease.newBuilder().setLeaseId(id).setItem(item).setTimeLeft(Values.duration(Duration.ofMinutes(1))).build();
  }

  @Test
  void brokerThatDoesNotAnswerIsPassedOver() throws Exception {
    CountDownLatch end = new CountDownLatch(1);
    try (ScriptedBroker frozen = new ScriptedBroker(InsecureServerCredentials.create());
        ScriptedBroker broker = new ScriptedBroker(InsecureServerCredentials.create())) {
      frozen.wake =
          call -> {
            Watcher.await(end);
            return null;
          };
      Transport transport = new Transport(List.of(frozen.address(), broker.address()), Credentials.plaintext(), text -> {});
      Caller caller = new Caller(transport, null, failure -> {}, retry -> {});
      var request = com.example.leasebroker.v1.WakeRequest.getDefaultInstance();
      Caller.Limits limits = new Caller.Limits(() -> Clock.NEVER, 5 * Clock.SECOND, new Abort(), () -> {});
      for (int call = 0; call < 6; call++) {
        caller.call("Wake", (stub, wake) -> stub.wake(wake), request, limits);
      }
      end.countDown();
      transport.close();
      assertEquals(6, broker.wakes.get());
      assertEquals(1, frozen.wakes.get());
    }
  }

  private static Transport withLookup(Transport.Lookup lookup) {
    Transport transport = new Transport(List.of("dns:///broker:1"), Credentials.plaintext(), text -> {});
    transport.lookup = lookup;
    return transport;
  }

  @Test
  void attemptEndsInItsTimeWhileANameIsResolved() {
    CountDownLatch answer = new CountDownLatch(1);
    Transport transport =
        withLookup(
            host -> {
              Watcher.await(answer);
              throw new IOException("unknown");
            });
    Caller caller = new Caller(transport, null, failure -> {}, retry -> {});
    Failure failure =
        assertTimeoutPreemptively(
            Duration.ofSeconds(30),
            () -> {
              WakeRequest request = WakeRequest.getDefaultInstance();
              Failure late = caller.attempt(LeaseServiceBlockingStub::wake, request, 100 * Clock.MILLISECOND, false, new Abort()).failure();
              transport.close();
              return late;
            });
    answer.countDown();
    assertEquals("the name of the broker is unknown: TimeoutException: no result in time", failure.message());
  }

  @Test
  void transportThatWasClosedMakesNoConnection() {
    Transport transport = withLookup(host -> new InetAddress[] {InetAddress.getLoopbackAddress()});
    transport.close();
    assertThrows(IOException.class, () -> transport.awaitAddresses(60 * Clock.SECOND, new Abort()));
  }

  @Test
  void errorInTheResolutionOfANameEndsIt() {
    Transport transport =
        withLookup(
            host -> {
              throw new NoClassDefFoundError("broken");
            });
    assertThrows(ExecutionException.class, () -> transport.awaitAddresses(60 * Clock.SECOND, new Abort()));
  }

  @Test
  void abortEndsTheWaitForAConnection() throws Exception {
    // Connections are accepted and never answered, as by a process that is stopped.
    try (ServerSocket silent = new ServerSocket(0, 10, InetAddress.getLoopbackAddress())) {
      Transport transport = new Transport(List.of("127.0.0.1:" + silent.getLocalPort()), Credentials.plaintext(), text -> {});
      Caller caller = new Caller(transport, null, failure -> {}, retry -> {});
      var request = com.example.leasebroker.v1.WakeRequest.getDefaultInstance();
      Abort abort = new Abort();
      Caller.Limits limits = new Caller.Limits(() -> Clock.NEVER, Caller.ATTEMPT_TIMEOUT, abort, () -> {});
      CompletableFuture<?> call =
          CompletableFuture.supplyAsync(() -> caller.call("Wake", (stub, wake) -> stub.wake(wake), request, limits));
      try (Socket connection = silent.accept()) {
        assertTrue(connection.isConnected());
        abort.cancel();
        Throwable end = assertThrows(ExecutionException.class, () -> call.get(4, TimeUnit.SECONDS)).getCause();
        assertEquals(Abort.Aborted.class, end.getClass());
      }
      transport.close();
    }
  }

  @Test
  void silentBrokerIsCalledAgainWhenTheOtherOneFails() throws Exception {
    Transport transport = new Transport(List.of("127.0.0.1:1", "127.0.0.1:2"), Credentials.plaintext(), text -> {});
    Transport.Broker refusing = transport.route();
    transport.noteFailure(transport.route(), true);
    assertSame(refusing, transport.route());
    assertSame(refusing, transport.route());
    transport.noteFailure(refusing, false);
    // It is no longer passed over: the wait before a retry can be longer.
    transport.noteAnswer(refusing);
    assertNotSame(refusing, transport.route());
    transport.close();
  }

  @Test
  void tokenFileThatDoesNotAnswerEndsWithItsCall() throws Exception {
    Path pipe = folder.resolve("pipe");
    assertEquals(0, new ProcessBuilder("mkfifo", pipe.toString()).start().waitFor());
    Client client = Client.builder("127.0.0.1:1").token(TokenSource.ofFile(pipe)).timeout(Duration.ofMillis(200)).build();
    LeaseBrokerException error =
        assertTimeoutPreemptively(Duration.ofSeconds(60), () -> assertThrows(LeaseBrokerException.class, () -> client.wake("work")));
    assertTrue(error.getMessage().contains("the token cannot be read"), error.getMessage());
    client.close();
    Files.writeString(pipe, "known"); // Ends the thread that reads.
  }

  @Test
  void addressesOfANameAreUsed() throws Exception {
    try (ScriptedBroker broker = new ScriptedBroker(InsecureServerCredentials.create())) {
      String port = broker.address().substring(broker.address().lastIndexOf(':'));
      for (String address : List.of("dns:///localhost" + port, "localhost" + port + "," + broker.address())) {
        try (Client client = Client.connect(address)) {
          client.wake("work");
        }
      }
      assertEquals(2, broker.wakes.get());
      assertThrows(IllegalArgumentException.class, () -> Client.connect("dns:///localhost:1,127.0.0.1:2"));
    }
  }

  @Test
  void nameOfAFileIsNoToken() throws Exception {
    Path token = Files.writeString(folder.resolve("token"), "secret");
    assertThrows(IllegalArgumentException.class, () -> TokenSource.of(token.toString()));
  }

  @Test
  void queuesShareAWorkerAndInterceptorsSurroundHandlers() throws Exception {
    List<String> steps = new CopyOnWriteArrayList<>();
    try (Broker broker = new Broker(folder)) {
      broker.enqueue("work", List.of(Map.of("payload", "x")));
      broker.enqueue("next", List.of(Map.of("number", 1)));
      Interceptor outer =
          (items, context, next) -> {
            steps.add("before " + items.size());
            Map<Item, Result> results = next.handle(items, context);
            steps.add("after");
            return results;
          };
      Handler handler =
          (item, context) -> {
            steps.add("handler");
            return null;
          };
      Worker worker =
          Worker.builder(broker.address, Queue.of("work", handler).intercept(outer))
              .queue(Queue.ofBatches("next", 5, (items, context) -> null).concurrency(2))
              .build();
      worker.start();
      until(() -> worker.counters().getOrDefault(Event.Name.COMPLETED, 0L) == 2);
      worker.stop();
      assertEquals(1, worker.counters("next").get(Event.Name.COMPLETED));
      assertEquals(List.of("before 1", "handler", "after"), steps);
    }
    assertThrows(
        IllegalArgumentException.class,
        () -> Worker.builder("127.0.0.1:1", Queue.of("work", (item, context) -> null)).queue(Queue.of("work", (item, context) -> null)).build());
  }

  @Test
  void itemsAndContextsOfTests() {
    Item item = Item.of("7", Map.of("Customer", "Ada"), 2, 5);
    assertEquals("Ada", item.getString("Customer"));
    assertEquals(5, item.fencingToken());
    Context context = Context.of(item);
    context.check();
    context.checkpoint(new byte[] {1});
    assertTrue(context.isHeld(item));
    assertThrows(CancelledException.class, () -> Context.cancelled(Cause.SHUTDOWN, item).check());
    assertTrue(Context.cancelled(Cause.SHUTDOWN, item).isHeld(item));
    assertFalse(Context.cancelled(Cause.LEASE_LOST, item).isHeld(item));
    assertTrue(Context.of().timeLeft().toSeconds() >= 30);
  }

  @Test
  void traceThatIsNotSampledIsLeftOut() {
    String trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0";
    Tracing.Scope scope = Tracing.enter(trace + "0");
    assertEquals("", Tracing.current());
    scope.close();
    scope = Tracing.enter(trace + "1");
    assertEquals(trace + "1", Tracing.current());
    assertTrue(Span.current().getSpanContext().isRemote());
    scope.close();
  }
}
