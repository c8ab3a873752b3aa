package com.example.leasebroker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.example.leasebroker.v1.Outcome;
import io.grpc.InsecureServerCredentials;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.TlsServerCredentials;
import java.io.ByteArrayInputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
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

  private static Watcher work(ScriptedBroker broker, Event.Name until) throws InterruptedException {
    Watcher events = new Watcher();
    Worker worker = Worker.builder(broker.address(), "work", (item, context) -> null).onEvent(events).build();
    worker.start();
    events.await(until, 1);
    worker.stop(Duration.ZERO);
    return events;
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
      Worker worker = Worker.builder(broker.address(), "work", (item, context) -> null).token(TokenSource.of("wrong")).build();
      assertEquals(Status.Code.UNAUTHENTICATED, assertThrows(LeaseBrokerException.class, worker::run).code());
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
      wake(broker, Credentials.tls(server.cert(), worker.cert(), worker.key(), "broker.example"), Duration.ofSeconds(30));
      List<Credentials> refused =
          List.of(
              Credentials.tls(server.cert(), worker.cert(), worker.key(), null),
              Credentials.tls(server.cert(), null, null, "broker.example"),
              Credentials.tls(worker.cert(), worker.cert(), worker.key(), "broker.example"));
      for (Credentials each : refused) {
        assertThrows(LeaseBrokerException.class, () -> wake(broker, each, Duration.ofMillis(300)));
      }
      assertEquals(1, broker.wakes.get());
    }
  }

  private static void wake(ScriptedBroker broker, Credentials credentials, Duration timeout) {
    try (Client client = Client.builder(broker.address()).credentials(credentials).token(TokenSource.of("secret")).timeout(timeout).build()) {
      client.wake("work");
    }
  }

  @Test
  void certificateWithoutItsKeyIsRefused() {
    byte[] text = "no PEM".getBytes(StandardCharsets.US_ASCII);
    assertThrows(IllegalArgumentException.class, () -> Credentials.tls(null, text, null, null));
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
