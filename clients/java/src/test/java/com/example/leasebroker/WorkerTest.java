package com.example.leasebroker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.opentelemetry.api.trace.Span;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class WorkerTest {
  /** A lease that a test outlives. Its heartbeats can be late by more than 3 s, as on a busy machine. */
  private static final Duration SHORT_LEASE = Duration.ofSeconds(6);

  @TempDir Path folder;
  private Broker broker;
  private final Watcher events = new Watcher();

  @BeforeEach
  void startBroker() throws Exception {
    broker = new Broker(folder);
  }

  @AfterEach
  void stopBroker() throws Exception {
    if (broker != null) {
      broker.close();
    }
  }

  private static Queue work(Handler handler) {
    return Queue.of("work", handler);
  }

  private static <T> T take(BlockingQueue<T> queue) throws InterruptedException {
    T value = queue.poll(60, TimeUnit.SECONDS);
    if (value == null) {
      throw new AssertionError("no value within 60 s");
    }
    return value;
  }

  @Test
  void oddDelayOfARetryIsCut() throws Exception {
    List<Duration> delays = List.of(Duration.ofSeconds(-1), Duration.ofSeconds(Long.MAX_VALUE), Duration.ofSeconds(Long.MIN_VALUE));
    AtomicInteger next = new AtomicInteger();
    broker.addWork(delays.size() + 1);
    broker.start(
        work((item, context) -> {
          int index = next.getAndIncrement();
          if (index < delays.size()) {
            throw new Retry("later", delays.get(index));
          }
          return null;
        }), events);
    events.await(Event.Name.FAILED, delays.size());
    events.await(Event.Name.COMPLETED, 1);
    assertEquals("Retry: later", events.find(Event.Name.FAILED).error());
    assertEquals(0, events.count(Event.Name.REFUSED));
  }

  @Test
  void exceptionSaysHowTheItemEnds() throws Exception {
    record Case(Exception error, String state, String text) {}
    List<Case> cases =
        List.of(
            new Case(new IllegalStateException("bad"), "delayed", "IllegalStateException: bad"),
            new Case(new Retry("no paper", Duration.ofMinutes(1)), "delayed", "Retry: no paper"),
            new Case(new DeadLetter("no customer"), "dead", "DeadLetter: no customer"),
            new Case(new RuntimeException("outer", new DeadLetter("no customer")), "dead", "RuntimeException: outer"),
            new Case(new Release(Duration.ofMinutes(1)), "delayed", null));
    broker.addWork(cases.size());
    broker.start(
        work((item, context) -> {
          throw cases.get((int) item.getLong("amount")).error();
        }), events);
    events.await(Event.Name.FAILED, 4);
    events.await(Event.Name.RELEASED, 1);
    for (int i = 0; i < cases.size(); i++) {
      String key = String.valueOf(i + 1);
      Broker.Row row = broker.rows("work", cases.get(i).state()).stream().filter(each -> each.key().equals(key)).findFirst().orElseThrow();
      assertEquals(cases.get(i).text(), row.error());
    }
  }

  @Test
  void executorThatRunsHandlersInItsCallersThreadDelaysNoOtherHandler() throws Exception {
    CountDownLatch running = new CountDownLatch(2);
    broker.addWork(2);
    Handler handler =
        (item, context) -> {
          running.countDown();
          if (!running.await(60, TimeUnit.SECONDS)) {
            throw new IllegalStateException("the other handler has not begun");
          }
          return null;
        };
    broker.start(work(handler).concurrency(2).executor(Runnable::run), events);
    events.await(Event.Name.COMPLETED, 2);
    assertEquals(0, events.count(Event.Name.FAILED));
  }

  @Test
  void errorOfAHandlerFailsTheItem() throws Exception {
    broker.addWork(1);
    broker.start(
        work((item, context) -> {
          throw new StackOverflowError("broken");
        }), events);
    events.await(Event.Name.FAILED, 1);
    assertEquals("StackOverflowError: broken", broker.rows("work", "delayed").get(0).error());
  }

  @Test
  void resultIsWritten() throws Exception {
    Map<String, Object> row = new HashMap<>();
    row.put("note", null);
    broker.enqueue("daily", List.of(row));
    BlockingQueue<Optional<Object>> notes = new LinkedBlockingQueue<>();
    Handler daily =
        (item, context) -> {
          notes.add(Optional.ofNullable(item.columns().get("note")));
          return new Result(Map.of("note", "done"), List.of(new FollowUp("next", Map.of("number", 7))));
        };
    broker.start(Queue.of("daily", daily), new Watcher());
    assertEquals(Optional.empty(), take(notes));
    assertEquals(Optional.of("done"), take(notes));
    BlockingQueue<Long> numbers = new LinkedBlockingQueue<>();
    Handler next =
        (item, context) -> {
          numbers.add(item.getLong("number"));
          return null;
        };
    broker.start(Queue.of("next", next), new Watcher());
    assertEquals(7, take(numbers));
  }

  @Test
  void refusedCompletionFailsOneItem() throws Exception {
    broker.addWork(10);
    Handler handler = (item, context) -> Result.ofColumns(Map.of(item.getLong("amount") == 3 ? "amount" : "note", "1"));
    broker.start(work(handler).concurrency(10), events);
    events.await(Event.Name.COMPLETED, 9);
    events.await(Event.Name.FAILED, 1);
    assertTrue(events.find(Event.Name.REFUSED).reason().contains("amount"), events.find(Event.Name.REFUSED).reason());
    assertTrue(broker.rows("work", "delayed").get(0).error().startsWith("Refused: "));
  }

  @Test
  void batchExceptionFailsTheNamedItems() throws Exception {
    broker.addWork(100);
    AtomicInteger largest = new AtomicInteger();
    BatchHandler handler =
        (items, context) -> {
          largest.accumulateAndGet(items.size(), Math::max);
          Map<Item, Throwable> errors = new HashMap<>();
          items.stream().filter(item -> item.getLong("amount") == 7).forEach(item -> errors.put(item, new IllegalStateException("seven")));
          if (!errors.isEmpty()) {
            throw new BatchException(errors);
          }
          return null;
        };
    Worker worker = broker.start(Queue.ofBatches("work", 50, handler), events);
    events.await(Event.Name.COMPLETED, 99);
    events.await(Event.Name.FAILED, 1);
    worker.stop();
    broker.expect(Map.of("completed", 99, "delayed", 1));
    assertEquals(50, largest.get());
  }

  @Test
  void cancelledLeaseInterruptsTheHandler() throws Exception {
    broker.addWork(1);
    BlockingQueue<Optional<Cause>> causes = new LinkedBlockingQueue<>();
    AtomicBoolean called = new AtomicBoolean();
    Handler handler =
        (item, context) -> {
          if (item.fencingToken() > 1) {
            return null;
          }
          context.onCancel(() -> called.set(true));
          broker.cancel(item.key(), "wrong customer");
          try {
            Thread.sleep(30_000);
          } catch (InterruptedException interrupted) {
            causes.add(context.cause());
          }
          return null;
        };
    broker.start(work(handler).lease(SHORT_LEASE), events);
    assertEquals(Optional.of(Cause.LEASE_LOST), take(causes));
    events.await(Event.Name.COMPLETED, 1);
    assertTrue(called.get());
    assertEquals("wrong customer", events.find(Event.Name.CANCELLED).reason());
  }

  @Test
  void timeLimitFailsTheItem() throws Exception {
    broker.addWork(1);
    broker.start(
        work((item, context) -> {
          Thread.sleep(30_000);
          return null;
        }).timeLimit(Duration.ofMillis(500)), events);
    events.await(Event.Name.FAILED, 1);
    assertEquals("time limit of 0.5 s", broker.rows("work", "delayed").get(0).error());
  }

  @Test
  void stuckHandlersAreReplacedUpToTheLimit() throws Exception {
    CountDownLatch done = new CountDownLatch(1);
    Handler handler =
        (item, context) -> {
          if (item.getString("payload").equals("stuck")) {
            waitThrough(done);
          }
          return null;
        };
    Worker worker =
        broker.start(work(handler).timeLimit(Duration.ofMillis(300)).stuckAfter(Duration.ofMillis(300)).maxStuck(1), events);
    broker.enqueue("work", List.of(Map.of("payload", "stuck")));
    events.await(Event.Name.STUCK, 1);
    assertTrue(events.find(Event.Name.STUCK).stack().contains("waitThrough"), events.find(Event.Name.STUCK).stack());
    broker.addWork(20);
    events.await(Event.Name.COMPLETED, 20);
    assertTrue(worker.health());
    broker.enqueue("work", List.of(Map.of("payload", "stuck")));
    events.await(Event.Name.STUCK, 2);
    assertFalse(worker.health());
    done.countDown();
  }

  private static void waitThrough(CountDownLatch latch) {
    while (latch.getCount() > 0) {
      try {
        latch.await();
      } catch (InterruptedException ignored) {
        // This handler does not stop.
      }
    }
  }

  @Test
  void stoppingWorkerLeavesHandlersThatIgnoreIt() throws Exception {
    broker.addWork(1);
    CountDownLatch done = new CountDownLatch(1);
    Handler handler =
        (item, context) -> {
          waitThrough(done);
          return null;
        };
    Worker worker = broker.start(work(handler), events);
    events.await(Event.Name.STARTED, 1);
    assertThrows(HandlersLeftException.class, () -> worker.stop(Duration.ZERO));
    done.countDown();
  }

  @Test
  void refusedCheckpointLosesNoLease() throws Exception {
    broker.addWork(2);
    Handler handler =
        (item, context) -> {
          context.checkpoint(new byte[70_000]);
          if (item.getLong("amount") == 1) {
            context.checkpoint(new byte[5_000]); // The queue stores 4,096 bytes.
          }
          Thread.sleep(SHORT_LEASE.plusSeconds(1).toMillis());
          context.checkpoint(new byte[5_000]);
          return null;
        };
    broker.start(work(handler).concurrency(2).lease(SHORT_LEASE), events);
    events.await(Event.Name.COMPLETED, 2);
    assertEquals(0, events.count(Event.Name.LOST));
    assertEquals(0, events.count(Event.Name.FAILED));
  }

  @Test
  void unknownQueueEndsTheWorker() {
    Worker worker = Worker.builder(broker.address, Queue.of("no_such_queue", (item, context) -> null)).build();
    assertEquals("QUEUE_NOT_FOUND", assertThrows(LeaseBrokerException.class, worker::run).reason());
  }

  @Test
  void workerThatWasStoppedFirstDoesNothing() throws Exception {
    broker.addWork(1);
    Worker worker = Worker.builder(broker.address, work((item, context) -> null).onEvent(events)).build();
    worker.stop();
    worker.run();
    worker.start();
    assertEquals(0, events.count(Event.Name.CLAIMED));
    assertEquals(1, broker.rows("work", "ready").size());
  }

  @Test
  void workerStartsOnce() {
    Worker worker = Worker.builder(broker.address, work((item, context) -> null)).build();
    worker.start();
    assertThrows(IllegalStateException.class, worker::start);
    worker.stop();
    assertThrows(IllegalStateException.class, worker::start);
  }

  @Test
  void observerThatThrowsIsIgnored() throws Exception {
    broker.addWork(2);
    Queue queue =
        work((item, context) -> null)
            .onEvent(event -> {
              throw new IllegalStateException("broken observer");
            });
    Worker worker = Worker.builder(broker.address, queue).build();
    worker.start();
    while (worker.counters().getOrDefault(Event.Name.COMPLETED, 0L) < 2) {
      Thread.sleep(10);
    }
    worker.stop();
  }

  @Test
  void handlerContinuesTheTraceOfTheRow() throws Exception {
    String trace = "0af7651916cd43dd8448eb211c80319c";
    broker.client().enqueue("work", List.of(Map.of("payload", "x")), null, "00-" + trace + "-b7ad6b7169203331-01");
    BlockingQueue<String> traces = new LinkedBlockingQueue<>();
    Handler handler =
        (item, context) -> {
          traces.add(Span.current().getSpanContext().getTraceId());
          return null;
        };
    broker.start(work(handler), events);
    assertEquals(trace, take(traces));
  }

  @Test
  void wakeAndDelayedRows() {
    Client client = broker.client();
    client.wake("work");
    List<Map<String, Object>> rows = Collections.nCopies(1_500, Map.of("payload", "x"));
    assertEquals(1_500, client.enqueue("work", rows, Duration.ofHours(1), "").size());
    assertEquals(1_000, broker.rows("work", "delayed").size());
  }

  @Test
  void errorAfterTheFirstRowsHasTheirKeys() {
    List<Map<String, Object>> rows = new ArrayList<>(Collections.nCopies(1_500, Map.of("payload", "x")));
    rows.set(1_200, Map.of("amount", "many"));
    LeaseBrokerException error = assertThrows(LeaseBrokerException.class, () -> broker.enqueue("work", rows));
    assertEquals(1_000, error.keys().size());
    assertEquals("partly", error.applied());
    assertEquals(List.of("items[1200].columns[\"amount\"]"), error.fields());
    assertTrue(error.getMessage().contains(": items[1200].columns"), error.getMessage());
    assertTrue(error.getMessage().endsWith("; the first 1000 rows were added"), error.getMessage());

    rows.set(1_200, Map.of("amount", new Object()));
    assertThrows(IllegalArgumentException.class, () -> broker.enqueue("next", rows));
    assertEquals(0, broker.rows("next", "ready").size());
  }

  @Test
  void clientOfAnUnknownQueueThrows() {
    LeaseBrokerException error =
        assertThrows(LeaseBrokerException.class, () -> broker.enqueue("nowhere", new ArrayList<>(List.of(Map.of("a", 1)))));
    assertInstanceOf(RuntimeException.class, error);
    assertNull(error.getCause());
    assertEquals("QUEUE_NOT_FOUND", error.reason());
  }
}
