package com.example.leasebroker;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.example.leasebroker.v1.ColumnValue;
import com.example.leasebroker.v1.Lease;
import java.math.BigDecimal;
import java.time.Duration;
import java.time.Instant;
import java.util.Collections;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

class ValuesTest {
  private static final Handler NOTHING = (item, context) -> null;

  @Test
  void valuesReturnAsTheyWereSent() {
    Instant instant = Instant.parse("0001-01-01T00:00:00.000001Z");
    for (Object value : List.of(true, Long.MIN_VALUE, 1.5, "ż 😀", instant, new BigDecimal("-12.50"))) {
      assertEquals(value, Values.fromProto("c", Values.toProto("c", value)));
    }
    assertNull(Values.fromProto("c", Values.toProto("c", null)));
    assertArrayEquals(new byte[] {0}, (byte[]) Values.fromProto("c", Values.toProto("c", new byte[] {0})));
    assertEquals(7L, Values.fromProto("c", Values.toProto("c", 7)));
  }

  @Test
  void valueThatNoColumnHoldsIsAnError() {
    List<Object> values =
        List.of(
            new Object(), new BigDecimal("1E+1000000000"), new BigDecimal("1E-1000000000"), new BigDecimal("1E+2147483647"),
            new BigDecimal("1E-2147483647"), Double.NaN, Float.NaN, Instant.MAX, Instant.parse("-0044-03-15T12:00:00Z"), "\ud83d", "a\ude00", "\ude00\ud83d", "\ud83d\ud83d\ude00");
    for (Object value : values) {
      var error = assertThrows(IllegalArgumentException.class, () -> Values.toProto("c", value));
      assertTrue(error.getMessage().contains("column \"c\""), error.getMessage());
    }
  }

  @Test
  void valueOfANewerApiIsNotNull() {
    Lease.Builder lease = Lease.newBuilder();
    lease.getItemBuilder().putColumns("c", ColumnValue.getDefaultInstance());
    Item item = new Item(lease.build());
    for (Executable read : List.<Executable>of(() -> item.getString("c"), () -> item.isNull("c"))) {
      assertEquals("column \"c\" has a value of a newer API", assertThrows(IllegalStateException.class, read).getMessage());
    }
    assertThrows(IllegalArgumentException.class, () -> Values.toProto(item.columns()));
  }

  @Test
  void typedColumns() {
    Lease.Builder lease = Lease.newBuilder();
    lease.getItemBuilder().putColumns("number", Values.toProto("number", 7)).putColumns("nothing", Values.toProto("nothing", null));
    Item item = new Item(lease.build());
    assertEquals(7, item.getLong("number"));
    assertTrue(item.isNull("nothing"));
    assertFalse(item.isNull("number"));
    assertThrows(IllegalStateException.class, () -> item.getLong("nothing"));
    assertThrows(IllegalStateException.class, () -> item.getString("number"));
    for (Executable read : List.<Executable>of(() -> item.getLong("missing"), () -> item.isNull("missing"))) {
      assertEquals("no column \"missing\"; the item has nothing, number", assertThrows(NoSuchElementException.class, read).getMessage());
    }
  }

  @Test
  void textsOfErrors() {
    assertEquals("IllegalStateException: bad", Ending.errorText(new IllegalStateException("bad")));
    assertEquals("NullPointerException", Ending.errorText(new NullPointerException()));
    HeldLease lease = new HeldLease(Lease.newBuilder().setLeaseId("1").build(), 0, 0);
    String text = Ending.failed(lease, "😀".repeat(2_000)).failure().getErrorMessage();
    assertEquals(1_024, text.codePointCount(0, text.length()));
  }

  @Test
  void plaintextToAnotherMachineIsRefused() {
    for (String local : List.of("127.0.0.1:1", "[::1]:1", "localhost:1", "LOCALHOST:1", "dns:///localhost:1", "unix:/run/broker")) {
      Worker.builder(local, Queue.of("work", NOTHING)).build();
    }
    for (String remote : List.of("db.example:1", "dns:///db.example:1", "10.0.0.1:1", "127.0.0.1:1,10.0.0.1:1")) {
      assertThrows(IllegalArgumentException.class, () -> Worker.builder(remote, Queue.of("work", NOTHING)).build(), remote);
    }
    Worker.builder("db.example:1", Queue.of("work", NOTHING)).credentials(Credentials.plaintextAllowed()).build();
  }

  @Test
  void malformedAddressesAreRefused() {
    List<String> malformed =
        List.of(
            "localhost", "localhost:", "localhost:abc", "localhost:0", "localhost:65536", ":1", "::1:1", "http://localhost:1", "a b:1",
            "127.0.0.2:21050/127.0.0.1:50051", "evil.example:80/127.0.0.1:1", "dns://evil.example/127.0.0.1:1", "dns:///localhost",
            "localhost:1,dns:///localhost:2", "localhost:1,unix:/run/broker");
    for (String address : malformed) {
      for (Executable build : List.<Executable>of(() -> Worker.builder(address, Queue.of("work", NOTHING)).build(), () -> Client.connect(address))) {
        String text = assertThrows(IllegalArgumentException.class, build, address).getMessage();
        assertTrue(text.contains("it must be host:port"), text);
      }
    }
  }

  @Test
  void nullIsRefusedWhereItIsGiven() throws Exception {
    Queue queue = Queue.of("work", NOTHING);
    Worker.Builder builder = Worker.builder("127.0.0.1:1", queue);
    Worker worker = builder.build();
    List<Executable> calls =
        List.of(
            () -> Worker.builder(null, queue), () -> Worker.builder("127.0.0.1:1", null), () -> Queue.of(null, NOTHING), () -> Queue.of("work", null),
            () -> Queue.ofBatches("work", 1, null), () -> builder.logger(null), () -> queue.intercept(null), () -> builder.grace(null),
            () -> queue.wait((Duration) null), () -> builder.credentials(null), () -> builder.queue(null), () -> worker.stop(null));
    for (Executable call : calls) {
      assertThrows(NullPointerException.class, call);
    }
    worker.stop();
  }

  @Test
  void slotsWithoutALimitHaveAHundredPollers() {
    record Case(int concurrency, int pollers) {}
    for (Case each : List.of(new Case(1_000, 1), new Case(1_001, 2), new Case(Integer.MAX_VALUE, 100))) {
      Options options = Options.of(Queue.of("work", NOTHING).concurrency(each.concurrency()), "worker", System.getLogger("test"));
      assertEquals(each.pollers(), options.pollers());
    }
  }

  @Test
  void optionsOutOfRangeAreRefused() {
    Worker.Builder builder = Worker.builder("127.0.0.1:1", Queue.of("work", NOTHING));
    assertThrows(IllegalArgumentException.class, () -> builder.workerId("").build());
    builder.workerId("😀".repeat(129)).build();
    List<Consumer<Queue>> malformed =
        List.of(
            each -> each.concurrency(0), each -> each.wait(Duration.ofSeconds(-1)), each -> each.wait(Duration.ofSeconds(61)),
            each -> each.groups(Collections.nCopies(101, "42")), each -> each.stuckAfter(Duration.ZERO));
    for (Consumer<Queue> option : malformed) {
      Queue odd = Queue.of("work", NOTHING);
      option.accept(odd);
      assertThrows(IllegalArgumentException.class, () -> Worker.builder("127.0.0.1:1", odd).build());
    }
    assertThrows(IllegalArgumentException.class, () -> Client.builder("127.0.0.1:1").timeout(Duration.ofSeconds(-1)).build());
    assertThrows(IllegalArgumentException.class, () -> Worker.builder(" , ", Queue.of("work", NOTHING)).build());
    assertThrows(IllegalArgumentException.class, () -> Worker.builder("127.0.0.1:1", Queue.ofBatches("work", 1_001, (items, context) -> null)).build());
  }
}
