package com.example.leasebroker;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.example.leasebroker.v1.ClaimBatchRequest;
import com.example.leasebroker.v1.ClaimBatchResponse;
import com.example.leasebroker.v1.HeartbeatRequest;
import com.example.leasebroker.v1.HeartbeatResponse;
import com.example.leasebroker.v1.LeaseServiceGrpc;
import com.example.leasebroker.v1.ReleaseClaimsRequest;
import com.example.leasebroker.v1.ReleaseClaimsResponse;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Server;
import io.grpc.Status;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** The warnings of a worker while no broker answers. */
class ConnectionHealthTest {
  private static final Duration NOW = Duration.ZERO;

  /** A broker without items. It keeps the times that claims wait. */
  private static final class Claims extends LeaseServiceGrpc.LeaseServiceImplBase implements AutoCloseable {
    private final BlockingQueue<Duration> waits = new LinkedBlockingQueue<>();
    private final CountDownLatch claimed = new CountDownLatch(1);
    private final int failing;
    private final Server server;
    private int calls;

    /** The call with the number `failing` fails. */
    Claims(int port, int failing) throws IOException {
      this.failing = failing;
      server = Grpc.newServerBuilderForPort(port, InsecureServerCredentials.create()).addService(this).build().start();
    }

    @Override
    public synchronized void claimBatch(ClaimBatchRequest request, StreamObserver<ClaimBatchResponse> answer) {
      waits.add(Duration.ofNanos(Values.nanos(request.getWaitTimeout())));
      claimed.countDown();
      if (++calls == failing) {
        answer.onError(Status.UNAVAILABLE.withDescription("away").asRuntimeException());
      } else {
        answer.onNext(ClaimBatchResponse.getDefaultInstance());
        answer.onCompleted();
      }
    }

    /** The keeper connects by an empty heartbeat. Its answer comes after the first claim, which it would let wait. */
    @Override
    public void heartbeat(HeartbeatRequest request, StreamObserver<HeartbeatResponse> answer) {
      try {
        claimed.await();
      } catch (InterruptedException closed) {
        return;
      }
      answer.onNext(HeartbeatResponse.getDefaultInstance());
      answer.onCompleted();
    }

    @Override
    public void releaseClaims(ReleaseClaimsRequest request, StreamObserver<ReleaseClaimsResponse> answer) {
      answer.onNext(ReleaseClaimsResponse.getDefaultInstance());
      answer.onCompleted();
    }

    @Override
    public void close() {
      server.shutdownNow();
    }
  }

  private static ServerSocket listen() throws IOException {
    return new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
  }

  private static Worker startWorker(int port, WarningLog log) {
    Worker worker = Worker.builder("127.0.0.1:" + port, Queue.of("work", (item, context) -> null)).logger(log).build();
    worker.start();
    return worker;
  }

  @Test
  void outageIsWarnedAboutUntilItsEnd() throws Exception {
    int port;
    try (ServerSocket free = listen()) {
      port = free.getLocalPort();
    }
    WarningLog log = new WarningLog();
    long begun = System.nanoTime();
    Worker worker = startWorker(port, log);
    try {
      String warning = log.next();
      assertTrue(System.nanoTime() - begun >= 2_000_000_000L);
      while (warning.endsWith(": no answer yet")) {
        warning = log.next(); // On a busy machine the first attempt takes longer than the time before the first warning.
      }
      assertTrue(warning.startsWith("calls to the broker at 127.0.0.1:" + port + " have failed for N s: UNAVAILABLE: "), warning);
      assertTrue(warning.contains("Connection refused"), warning);
      try (Claims broker = new Claims(port, 0)) {
        String end = log.next();
        while (end.startsWith("calls to the broker")) {
          end = log.next();
        }
        assertTrue(end.startsWith("the broker at 127.0.0.1:" + port + " answers again after "), end);
        assertEquals(NOW, broker.waits.peek());
        worker.stop(NOW);
      }
    } finally {
      worker.stop(NOW);
    }
  }

  @Test
  void brokerThatAcceptsAndIsSilentIsWarnedAbout() throws Exception {
    try (ServerSocket silent = listen()) {
      WarningLog log = new WarningLog();
      Worker worker = startWorker(silent.getLocalPort(), log);
      try {
        assertEquals("calls to the broker at 127.0.0.1:" + silent.getLocalPort() + " have failed for N s: no answer yet", log.next());
      } finally {
        worker.stop(NOW);
      }
    }
  }

  @Test
  void warningIsRepeatedWithTheLatestCause() throws Exception {
    WarningLog log = new WarningLog();
    ConnectionHealth health = new ConnectionHealth("a:1, b:2", log, event -> {});
    health.firstWarning = health.nextWarning = Clock.SECOND / 50;
    health.note(new Failure(Status.Code.RESOURCE_EXHAUSTED, "OVERLOADED", "an answer", List.of(), Failure.APPLIED_NO, null));
    health.start();
    assertEquals("calls to the broker at a:1, b:2 have failed for N s: no answer yet", log.next());
    health.note(new Failure(Status.Code.UNAVAILABLE, "STORE_UNAVAILABLE", "the database is away", List.of(), Failure.APPLIED_NO, null));
    String cause = "UNAVAILABLE (STORE_UNAVAILABLE): the database is away";
    while (!log.next().equals("calls to the broker at a:1, b:2 have failed for N s: " + cause)) {
      // A warning with the first cause can come between.
    }
    health.note(null);
    String last = log.next();
    while (last.startsWith("calls to the broker")) {
      last = log.next();
    }
    assertEquals("the broker at a:1, b:2 answers again after N s", last);
    assertNull(log.warnings.poll(100, TimeUnit.MILLISECONDS));
  }

  @Test
  void claimWaitsOnlyAfterAnAnswer() throws Exception {
    try (Claims broker = new Claims(0, 3)) {
      Worker worker = startWorker(broker.server.getPort(), new WarningLog());
      List<Duration> waits = new ArrayList<>();
      for (int i = 0; i < 5; i++) {
        waits.add(broker.waits.poll(30, TimeUnit.SECONDS));
      }
      worker.stop(NOW);
      Duration wait = Duration.ofSeconds(20);
      // The fourth request is the third one, sent again.
      assertEquals(List.of(NOW, wait, wait, NOW, wait), waits);
    }
  }
}
