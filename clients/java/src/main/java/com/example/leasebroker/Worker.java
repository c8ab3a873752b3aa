package com.example.leasebroker;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Works on the items of one queue, or of several. Make it with a builder, and use it once. */
public final class Worker {
  /** A host name, or the numbers of an address, and a port. */
  private static final Pattern HOST_PORT = Pattern.compile("(?:\\[[\\w:.%]+\\]|[^\\s/:@\\[\\]]+):([0-9]{1,5})");

  private final List<QueueWorker> queues;
  private final List<String> addresses;
  private final Credentials credentials;
  private final TokenSource token;
  private final Duration grace;
  private final System.Logger logger;
  private final ConnectionHealth health;
  private final CountDownLatch stopping = new CountDownLatch(1);
  private final CompletableFuture<Void> stopped = new CompletableFuture<>();
  private final AtomicBoolean stopBegun = new AtomicBoolean();
  private volatile boolean hurry;
  private volatile RuntimeException error;

  /** Is set by `start`. */
  private QueueWorker.Connections connections;

  private Worker(Builder builder, List<QueueWorker> queues) {
    this.queues = queues;
    addresses = parse(builder.address);
    credentials = builder.credentials;
    credentials.check(addresses);
    token = builder.token;
    grace = builder.grace;
    logger = builder.logger;
    health = new ConnectionHealth(String.join(", ", addresses), logger, this::emit);
  }

  /**
   * Begins a worker of a queue.
   *
   * @param address host:port, dns:///host:port, or several addresses with commas between them
   */
  public static Builder builder(String address, Queue queue) {
    return new Builder(address).queue(queue);
  }

  /**
   * Works until SIGTERM, SIGINT, {@link #stop} or an interrupt of its thread, and stops in order. A second signal cancels the
   * handlers. After an interrupt the thread is still interrupted.
   *
   * @throws LeaseBrokerException if the broker refuses the worker, for example because the queue does not exist
   * @throws HandlersLeftException if handlers did not return
   */
  @SuppressWarnings("try") // The signals are only caught and released.
  public void run() {
    try (Signals ignored = new Signals(this::onSignal, logger)) {
      start();
      try {
        stopping.await();
      } catch (InterruptedException end) {
        Thread.currentThread().interrupt();
      }
      stop(grace);
    }
  }

  /**
   * Starts the worker and returns. For programs that handle signals themselves. Does nothing if the worker was stopped first. All
   * threads of the library are daemons, so another thread has to keep the process until the worker is stopped.
   *
   * @throws IllegalStateException if the worker was started before
   */
  public synchronized void start() {
    if (connections != null) {
      throw new IllegalStateException("the worker was started before; make another one");
    }
    if (stopping.getCount() == 0) {
      return;
    }
    // Both look at the same files, so one of them warns.
    Transport calls = new Transport(addresses, credentials, text -> logger.log(System.Logger.Level.WARNING, text));
    connections = new QueueWorker.Connections(calls, new Transport(addresses, credentials, text -> {}), token, health);
    health.start();
    queues.forEach(queue -> queue.start(connections, this::onFatal));
  }

  /**
   * Stops in order: claims no more items, lets handlers return within the grace, cancels the others, and settles all. Throws as
   * {@link #run}. A later call waits for the first one. In a handler or an observer it returns immediately, because the worker
   * waits for both.
   */
  public void stop(Duration grace) {
    Objects.requireNonNull(grace, "grace");
    if (queues.stream().anyMatch(QueueWorker::isCaller)) {
      stopInBackground(grace);
      return;
    }
    if (stopBegun.compareAndSet(false, true)) {
      stopping.countDown();
      try {
        stopAll(Math.max(Values.nanos(grace), 0));
      } finally {
        stopped.complete(null);
      }
    }
    stopped.join();
    if (error != null) {
      throw error;
    }
  }

  /** Stops with the grace of the options. */
  public void stop() {
    stop(grace);
  }

  /**
   * False if no call was answered for the time of a lease, if too many handlers are stuck, if a thread of the worker has ended, or
   * if the broker has refused the worker.
   */
  public boolean health() {
    long lease = queues.stream().mapToLong(queue -> queue.state.read(queue.state::longestLease)).max().orElseThrow();
    return error == null && queues.stream().allMatch(QueueWorker::isHealthy) && health.failingFor() <= lease;
  }

  /** Returns how often each event has happened, in all queues. */
  public Map<Event.Name, Long> counters() {
    Map<Event.Name, Long> all = new EnumMap<>(Event.Name.class);
    queues.forEach(queue -> queue.events.counts().forEach((name, count) -> all.merge(name, count, Long::sum)));
    return all;
  }

  /** Returns how often each event has happened in one queue. */
  public Map<Event.Name, Long> counters(String queue) {
    return queues.stream().filter(each -> each.options.queue().equals(queue)).findFirst().orElseThrow().events.counts();
  }

  /** Reports an event of the connections in each queue. */
  private void emit(Event event) {
    queues.forEach(queue -> queue.events.emit(event.withQueue(queue.options.queue())));
  }

  private void stopAll(long limit) {
    QueueWorker.Connections used;
    synchronized (this) {
      used = connections;
    }
    if (used == null) {
      return;
    }
    var stops = queues.stream().map(queue -> Threads.run("lease-broker-stop", () -> queue.stop(limit, () -> hurry))).toList();
    CompletableFuture<Void> all = CompletableFuture.allOf(stops.toArray(CompletableFuture[]::new));
    all.completeOnTimeout(null, limit + QueueWorker.LONGEST_END, TimeUnit.NANOSECONDS).join();
    if (!stops.stream().allMatch(CompletableFuture::isDone)) {
      setError(new IllegalStateException("the worker has not stopped in time: an observer or a logger blocks its threads"));
    }
    health.close();
    used.calls().close();
    used.heartbeats().close();
    int left = queues.stream().mapToInt(queue -> queue.left).sum();
    if (left > 0) {
      setError(new HandlersLeftException(left));
    }
  }

  private void onSignal() {
    if (stopping.getCount() == 0) {
      hurry = true;
      queues.forEach(queue -> queue.state.update(queue.state.changed::signalAll));
    }
    stopping.countDown();
  }

  /** Stops the worker in order, because the broker refuses its calls or one of its threads has failed. */
  private void onFatal(RuntimeException fatal) {
    setError(fatal);
    logger.log(System.Logger.Level.ERROR, "the worker stops: {0}", fatal.getMessage());
    stopping.countDown();
    // `start` has returned to the program, which may not look.
    stopInBackground(grace);
  }

  private void stopInBackground(Duration limit) {
    Threads.start(
        "lease-broker-stop",
        () -> {
          try {
            stop(limit);
          } catch (RuntimeException known) {
            // `stop` of the program throws it too.
          }
        });
  }

  /** Keeps the first error. */
  private synchronized void setError(RuntimeException first) {
    if (error == null) {
      error = first;
    }
  }

  /** The options of a worker. */
  public static final class Builder {
    private final String address;
    private final List<Queue> queues = new ArrayList<>();
    private String workerId = Options.defaultWorkerId();
    private Duration grace = Duration.ofSeconds(15);
    private Credentials credentials = Credentials.plaintext();
    private TokenSource token;
    private System.Logger logger = System.getLogger("com.example.leasebroker");

    private Builder(String address) {
      this.address = Objects.requireNonNull(address, "address");
    }

    /** Adds another queue, which shares the connections of the worker. */
    public Builder queue(Queue queue) {
      queues.add(Objects.requireNonNull(queue, "queue"));
      return this;
    }

    /**
     * The name of the worker, for people who look for the holder of a lease. 1 to 128 UTF-16 units. Default: the host, the
     * process id and random digits.
     */
    public Builder workerId(String id) {
      workerId = Objects.requireNonNull(id, "workerId");
      return this;
    }

    /**
     * The time that handlers have to return when the worker stops. They are then cancelled with {@link Cause#SHUTDOWN} and have
     * 5 s more. Keep the sum below the time that your supervisor waits. Default: 15 s.
     */
    public Builder grace(Duration duration) {
      grace = Objects.requireNonNull(duration, "grace");
      return this;
    }

    /** How the connection is protected. Default: plaintext, for this machine only. */
    public Builder credentials(Credentials value) {
      credentials = Objects.requireNonNull(value, "credentials");
      return this;
    }

    /** The source of a bearer token, which every call carries. Default: none. */
    public Builder token(TokenSource source) {
      token = source;
      return this;
    }

    /** Receives the log. Default: the logger "com.example.leasebroker". */
    public Builder logger(System.Logger value) {
      logger = Objects.requireNonNull(value, "logger");
      return this;
    }

    /**
     * Makes the worker. It connects when it starts.
     *
     * @throws IllegalArgumentException if the address is malformed, or an option is out of its range
     */
    public Worker build() {
      if (grace.isNegative()) {
        throw new IllegalArgumentException("grace is " + grace + "; it must not be negative");
      }
      Set<String> names = new HashSet<>();
      List<QueueWorker> workers = new ArrayList<>();
      for (Queue queue : queues) {
        if (!names.add(queue.name)) {
          throw new IllegalArgumentException("queue " + queue.name + " was added before");
        }
        workers.add(new QueueWorker(Options.of(queue, workerId, logger), Runner.intercepted(queue)));
      }
      return new Worker(this, workers);
    }
  }

  /** Returns the addresses of a list with commas. Throws if one of them is malformed. */
  static List<String> parse(String address) {
    List<String> addresses = Arrays.stream(address.split(",")).map(String::strip).filter(part -> !part.isEmpty()).toList();
    if (addresses.isEmpty()) {
      throw new IllegalArgumentException("the address is empty; pass host:port");
    }
    for (String each : addresses) {
      boolean isAlone = addresses.size() == 1;
      Matcher matcher = HOST_PORT.matcher(isAlone ? Transport.withoutScheme(each) : each);
      boolean isPlain = matcher.matches() && Integer.parseInt(matcher.group(1)) >= 1 && Integer.parseInt(matcher.group(1)) <= 65_535;
      if (!isPlain && !(isAlone && each.startsWith("unix:"))) {
        throw new IllegalArgumentException("address " + each + ": it must be host:port, dns:///host:port, or a list of host:port");
      }
    }
    return addresses;
  }
}
