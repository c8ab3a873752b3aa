package com.example.leasebroker;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.Executor;
import java.util.function.Consumer;

/** The checked options of a queue. {@link Queue} documents each of them. */
record Options(
    String queue,
    String workerId,
    int concurrency,
    int batch,
    Duration lease,
    boolean heartbeat,
    Duration timeLimit,
    Duration pollWait,
    List<String> groups,
    Duration stuckAfter,
    int maxStuck,
    Consumer<Event> onEvent,
    System.Logger logger,
    Executor executor) {

  /** The largest number of items in a call. */
  static final int MAX_ITEMS_PER_CALL = 1_000;

  private static final int MAX_GROUPS = 100;

  /** The time for which a claim can wait. */
  private static final Duration MAX_WAIT = Duration.ofSeconds(60);

  private static final int MAX_POLLERS = 100;

  Options {
    require(!queue.isEmpty(), "queue is empty");
    require(!workerId.isEmpty(), "workerId is empty");
    require(concurrency >= 1, "concurrency is " + concurrency + "; it must be at least 1");
    require(batch >= 0 && batch <= MAX_ITEMS_PER_CALL, "batch is " + batch + "; it must be 1 to " + MAX_ITEMS_PER_CALL);
    require(maxStuck >= 1, "maxStuck is " + maxStuck + "; it must be at least 1");
    require(lease == null || isPositive(lease), "lease is " + lease + "; it must be more than 0");
    require(timeLimit == null || isPositive(timeLimit), "timeLimit is " + timeLimit + "; it must be more than 0");
    require(isPositive(stuckAfter), "stuckAfter is " + stuckAfter + "; it must be more than 0");
    require(!pollWait.isNegative() && pollWait.compareTo(MAX_WAIT) <= 0, "wait is " + pollWait + "; it must be 0 to 60 s");
    require(groups.size() <= MAX_GROUPS, "groups has " + groups.size() + " entries; it must have at most " + MAX_GROUPS);
  }

  static Options of(Queue queue, String workerId, System.Logger logger) {
    int maxStuck = queue.maxStuck == null ? Math.max(queue.concurrency, 1) : queue.maxStuck;
    return new Options(
        queue.name, workerId, queue.concurrency, queue.batch, queue.lease, queue.heartbeat, queue.timeLimit, queue.wait,
        queue.groups, queue.stuckAfter, maxStuck, queue.onEvent, logger, queue.executor);
  }

  /** The number of items that one handler gets. */
  int slotSize() {
    return Math.max(batch, 1);
  }

  /** The number of handlers for which one claim can get items. */
  int maxSlotsPerCall() {
    return Math.max(MAX_ITEMS_PER_CALL / slotSize(), 1);
  }

  /** The number of claims that can wait at the same time: as many as it takes to fill all slots, up to 100. */
  int pollers() {
    return Math.min((concurrency - 1) / maxSlotsPerCall() + 1, MAX_POLLERS);
  }

  static String defaultWorkerId() {
    String host;
    try {
      host = InetAddress.getLocalHost().getHostName();
    } catch (UnknownHostException unknown) {
      host = "unknown";
    }
    byte[] random = new byte[3];
    new SecureRandom().nextBytes(random);
    host = host.substring(0, Math.min(host.length(), 90));
    return host + "-" + ProcessHandle.current().pid() + "-" + HexFormat.of().formatHex(random);
  }

  private static void require(boolean condition, String message) {
    if (!condition) {
      throw new IllegalArgumentException(message);
    }
  }

  private static boolean isPositive(Duration duration) {
    return !duration.isNegative() && !duration.isZero();
  }
}
