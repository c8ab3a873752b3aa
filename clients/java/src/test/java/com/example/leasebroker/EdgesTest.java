package com.example.leasebroker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.InsecureServerCredentials;
import io.grpc.TlsServerCredentials;
import io.opentelemetry.api.trace.Span;
import java.io.ByteArrayInputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Executors that refuse, callbacks, certificates that change, brokers that hang, several queues, interceptors. */
class EdgesTest {
  @TempDir Path folder;

  private static void until(BooleanSupplier condition) throws InterruptedException {
    long limit = Clock.now() + 30 * Clock.SECOND;
    while (!condition.getAsBoolean()) {
      assertTrue(Clock.now() < limit, "the condition was not met");
      Thread.sleep(10);
    }
  }

  private static long count(Worker worker, Event.Name name) {
    return worker.counters().getOrDefault(name, 0L);
  }

  @Test
  void itemsOfRefusedStartsAreReleased() throws Exception {
    ThreadPoolExecutor executor = new ThreadPoolExecutor(1, 1, 1, TimeUnit.MINUTES, new SynchronousQueue<>());
    try (Broker broker = new Broker(folder)) {
      broker.enqueue("work", Collections.nCopies(8, Map.of("payload", "x")));
      Handler handler =
          (item, context) -> {
            Thread.sleep(200);
            return null;
          };
      Worker worker = Worker.builder(broker.address, "work", handler).concurrency(4).executor(executor).build();
      worker.start();
      until(() -> count(worker, Event.Name.COMPLETED) == 8);
      assertTrue(worker.health());
      assertTrue(count(worker, Event.Name.RELEASED) > 0);
      worker.stop();
      assertEquals(8, broker.rows("work", "completed").size());
    } finally {
      executor.shutdownNow();
    }
  }

  @Test
  void actionOfOnCancelThatBlocksDoesNotStopTheHeartbeats() throws Exception {
    CountDownLatch called = new CountDownLatch(1);
    CountDownLatch end = new CountDownLatch(1);
    try (Broker broker = new Broker(folder)) {
      broker.enqueue("work", Collections.nCopies(2, Map.of("payload", "x")));
      Handler handler =
          (item, context) -> {
            context.onCancel(
                () -> {
                  called.countDown();
                  Threads.await(end);
                });
            Threads.await(end);
            return null;
          };
      Worker worker = Worker.builder(broker.address, "work", handler).concurrency(2).timeLimit(Duration.ofMillis(200)).build();
      worker.start();
      assertTrue(called.await(30, TimeUnit.SECONDS));
      long beats = count(worker, Event.Name.HEARTBEAT);
      until(() -> count(worker, Event.Name.HEARTBEAT) > beats + 2);
      end.countDown();
      worker.stop();
      assertEquals(2, count(worker, Event.Name.COMPLETED));
    }
  }

  @Test
  void certificatesAreReadAgain() throws Exception {
    Certificate server = Certificate.of("broker.example", folder);
    Certificate first = Certificate.of("first", folder);
    Certificate second = Certificate.of("second", folder);
    Files.write(folder.resolve("ca"), server.cert());
    write(first);
    // Only the second certificate is trusted, so the first calls fail until the files are replaced.
    var credentials =
        TlsServerCredentials.newBuilder()
            .keyManager(new ByteArrayInputStream(server.cert()), new ByteArrayInputStream(server.key()))
            .trustManager(new ByteArrayInputStream(second.cert()))
            .clientAuth(TlsServerCredentials.ClientAuth.REQUIRE)
            .build();
    Transport.fileInterval = 50 * Clock.MILLISECOND;
    try (ScriptedBroker broker = new ScriptedBroker(credentials)) {
      Credentials files = Credentials.tls(folder.resolve("ca"), folder.resolve("cert"), folder.resolve("key"), "broker.example");
      try (Client client = Client.builder(broker.address()).credentials(files).timeout(Duration.ofSeconds(30)).build()) {
        Thread replacing =
            Threads.start(
                "replacing",
                () -> {
                  try {
                    Thread.sleep(500);
                    assertEquals(0, broker.wakes.get());
                    write(second);
                  } catch (Exception error) {
                    throw new AssertionError(error);
                  }
                });
        client.wake("work");
        replacing.join();
        assertEquals(1, broker.wakes.get());
      }
    } finally {
      Transport.fileInterval = 10 * Clock.SECOND;
    }
  }

  private void write(Certificate certificate) throws Exception {
    Files.write(folder.resolve("cert"), certificate.cert());
    Files.write(folder.resolve("key"), certificate.key());
  }

  @Test
  void brokerThatDoesNotAnswerIsPassedOver() throws Exception {
    CountDownLatch end = new CountDownLatch(1);
    try (ScriptedBroker frozen = new ScriptedBroker(InsecureServerCredentials.create());
        ScriptedBroker broker = new ScriptedBroker(InsecureServerCredentials.create())) {
      frozen.wake =
          call -> {
            Threads.await(end);
            return null;
          };
      Transport transport = new Transport(List.of(frozen.address(), broker.address()), Credentials.plaintext());
      Caller caller = new Caller(transport, null, failure -> {}, retry -> {});
      var request = com.example.leasebroker.v1.WakeRequest.getDefaultInstance();
      Caller.Limits limits = new Caller.Limits(() -> Clock.NEVER, Clock.SECOND / 2, new Abort(), () -> {});
      for (int call = 0; call < 6; call++) {
        caller.call("Wake", (stub, wake) -> stub.wake(wake), request, limits);
      }
      end.countDown();
      transport.close();
      assertEquals(6, broker.wakes.get());
      assertEquals(1, frozen.wakes.get());
    }
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
          Worker.builder(broker.address, "work", handler)
              .intercept(outer)
              .queue(Queue.ofBatches("next", 5, (items, context) -> null).concurrency(2))
              .build();
      worker.start();
      until(() -> count(worker, Event.Name.COMPLETED) == 2);
      worker.stop();
      assertEquals(1, worker.counters("next").get(Event.Name.COMPLETED));
      assertEquals(List.of("before 1", "handler", "after"), steps);
    }
    assertThrows(
        IllegalArgumentException.class,
        () -> Worker.builder("127.0.0.1:1", "work", (item, context) -> null).queue(Queue.of("work", (item, context) -> null)).build());
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
