package com.example.leasebroker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.InsecureServerCredentials;
import io.grpc.Status;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class WayTest {
  private final HeldLease lease = new HeldLease(Item.of("1", Map.of()));
  private final List<Ending> group = List.of(Ending.failed(lease, ""));
  private final Way way = new Way(state(), group);
  private long time;

  private static State state() {
    System.Logger logger = System.getLogger("test");
    return new State(Options.of(Queue.of("work", (item, context) -> null), "worker", logger), new EventLog("work", null, logger));
  }

  @BeforeEach
  void stopClock() {
    Clock.test = () -> time;
    lease.lastAnswer = -1;
  }

  @AfterEach
  void restoreClock() {
    Clock.test = null;
  }

  private boolean fails(long second, Status.Code code) {
    time = second * Clock.SECOND;
    return way.note(Failure.of(code, "no", Failure.APPLIED_UNKNOWN));
  }

  private void heartbeatIsAnswered() {
    lease.lastAnswer = time;
  }

  @Test
  void settlementIsRefusedOnTheWayWhileHeartbeatsAreAnswered() {
    assertFalse(fails(0, Status.Code.INTERNAL));
    heartbeatIsAnswered();
    assertFalse(fails(1, Status.Code.UNKNOWN));
    heartbeatIsAnswered();
    assertFalse(fails(10, Status.Code.INTERNAL));
    heartbeatIsAnswered();
    assertTrue(fails(11, Status.Code.INTERNAL));
    // No heartbeat is sent between the last attempt of the whole and the first one of a part.
    assertTrue(way.of(group).note(Failure.of(Status.Code.INTERNAL, "no", Failure.APPLIED_UNKNOWN)));
  }

  @Test
  void outageIsNoRefusalOnTheWay() {
    for (Status.Code code : List.of(Status.Code.INTERNAL, Status.Code.UNAVAILABLE, Status.Code.DEADLINE_EXCEEDED)) {
      assertFalse(fails(0, Status.Code.INTERNAL));
      heartbeatIsAnswered();
      assertFalse(fails(1, Status.Code.INTERNAL));
      if (code != Status.Code.INTERNAL) {
        heartbeatIsAnswered();
      }
      assertFalse(fails(60, code));
      heartbeatIsAnswered();
      assertFalse(fails(61, Status.Code.INTERNAL));
      lease.lastAnswer = -1;
    }
  }

  @Test
  void settlementThatAProxyFindsTooLargeFailsItsItem() throws Exception {
    Clock.test = null;
    try (ScriptedBroker broker = new ScriptedBroker(InsecureServerCredentials.create())) {
      broker.completeErrors.add(Status.UNKNOWN.withDescription("HTTP status code 413\ninvalid content-type: text/html").asRuntimeException());
      Watcher events = new Watcher();
      Worker worker = Worker.builder(broker.address(), Queue.of("work", (item, context) -> null).onEvent(events)).build();
      worker.start();
      events.await(Event.Name.FAILED, 1);
      worker.stop(Duration.ZERO);
      assertEquals("Refused: HTTP status code 413", events.find(Event.Name.FAILED).error());
      assertEquals(0, events.count(Event.Name.RETRY));
    }
  }
}
