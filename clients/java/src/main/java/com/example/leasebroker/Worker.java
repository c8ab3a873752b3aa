package com.example.leasebroker;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;

/** Works on the items of one queue. Make it with a builder, and use it once. */
public final class Worker {
  /** The time that a cancelled handler has to return when the worker stops. */
  private static final long CANCEL_GRACE = 5 * Clock.SECOND;

  /** The time that the last settling calls have after that. */
  private static final long SETTLE_GRACE = 5 * Clock.SECOND;

  private final Options options;
  private final EventLog events;
  private final State state;
  private final ConnectionHealth health;
  private final Runner runner;
  private final CountDownLatch stopping = new CountDownLatch(1);
  private final CountDownLatch stopped = new CountDownLatch(1);
  private final AtomicBoolean stopBegun = new AtomicBoolean();
  private volatile boolean hurry;
  private volatile RuntimeException error;

  // These are set by `start`.
  private ExecutorService calls;
  private ExecutorService handlers;
  private Transport transport;
  private Transport keeperTransport;
  private Poller poller;
  private Settler settler;
  private Keeper keeper;
  private Thread settlerThread;
  private Thread keeperThread;
  private final List<Thread> pollerThreads = new ArrayList<>();

  private Worker(Options options, BatchHandler handler) {
    this.options = options;
    events = new EventLog(options.queue(), options.onEvent(), options.logger());
    state = new State(options, events);
    health = new ConnectionHealth(options, events::emit);
    runner = new Runner(state, handler);
  }

  /**
   * Begins a worker whose handler gets one item.
   *
   * @param address host:port, dns:///host:port, or several addresses with commas between them
   * @param queue the name of the queue
   */
  public static Builder builder(String address, String queue, Handler handler) {
    return new Builder(address, queue, 0, Runner.inBatches(handler));
  }

  /** Begins a worker whose handler gets up to `batch` items, 1 to 1,000. The concurrency is then the number of batches. */
  public static Builder batchBuilder(String address, String queue, int batch, BatchHandler handler) {
    if (batch < 1) {
      throw new IllegalArgumentException("batch is " + batch + "; it must be at least 1");
    }
    return new Builder(address, queue, batch, handler);
  }

  /**
   * Works until SIGTERM, SIGINT or {@link #stop}, and stops in order. A second signal cancels the handlers.
   *
   * @throws LeaseBrokerException if the broker refuses the worker, for example because the queue does not exist
   * @throws HandlersLeftException if handlers did not return
   */
  @SuppressWarnings("try") // The signals are only caught and released.
  public void run() {
    try (Signals ignored = new Signals(this::onSignal, options.logger())) {
      start();
      await(stopping);
      stop(options.grace());
    }
  }

  /**
   * Starts the worker and returns. For programs that handle signals themselves. Does nothing if the worker was stopped first.
   *
   * @throws IllegalStateException if the worker was started before
   */
  public synchronized void start() {
    if (transport != null) {
      throw new IllegalStateException("the worker was started before; make another one");
    }
    if (stopping.getCount() == 0) {
      return;
    }
    transport = new Transport(options.addresses(), options.credentials());
    keeperTransport = new Transport(options.addresses(), options.credentials());
    calls = Executors.newCachedThreadPool(threads("lease-broker-call"));
    handlers = Executors.newCachedThreadPool(threads("lease-broker-handler"));
    Executor executor = options.executor() == null ? handlers : options.executor();
    state.start = run -> executor.execute(() -> runner.run(run));
    Caller caller = new Caller(transport, options.token(), health::note, this::onRetry);
    Caller keeperCaller = new Caller(keeperTransport, options.token(), health::note, this::onRetry);
    poller = new Poller(state, caller, health, this::onFatal);
    settler = new Settler(state, caller, calls, this::onFatal);
    keeper = new Keeper(state, keeperCaller, calls, this::onFatal);
    health.start();
    settlerThread = startThread("lease-broker-settler", settler::run);
    keeperThread = startThread("lease-broker-keeper", keeper::run);
    for (int i = 0; i < options.pollers(); i++) {
      pollerThreads.add(startThread("lease-broker-poller", poller::run));
    }
  }

  /**
   * Stops in order: claims no more items, lets handlers return within the grace, cancels the others, and settles all. Throws as
   * {@link #run}. A later call waits for the first one.
   */
  public void stop(Duration grace) {
    if (stopBegun.compareAndSet(false, true)) {
      stopping.countDown();
      try {
        if (isStarted()) {
          stopInOrder(grace.toNanos());
        }
      } finally {
        stopped.countDown();
      }
    }
    await(stopped);
    if (error != null) {
      throw error;
    }
  }

  /** Stops with the grace of the options. */
  public void stop() {
    stop(options.grace());
  }

  /**
   * False if no call was answered for the time of a lease, if too many handlers are stuck, or if the broker has refused the
   * worker.
   */
  public boolean health() {
    boolean isStuck = state.read(() -> state.stuck > options.maxStuck());
    long lease = state.read(state::longestLease);
    return error == null && !isStuck && health.failingFor() <= lease;
  }

  /** Returns how often each event has happened. */
  public Map<Event.Name, Long> counters() {
    return events.counts();
  }

  private synchronized boolean isStarted() {
    return transport != null;
  }

  private void stopInOrder(long grace) {
    events.emit(Event.of(Event.Name.STOPPING));
    state.update(
        () -> {
          state.takesItems = false;
          state.slotsFree.signalAll();
        });
    CompletableFuture.delayedExecutor(grace + CANCEL_GRACE + SETTLE_GRACE, TimeUnit.NANOSECONDS, Runnable::run).execute(settler::giveUp);
    poller.stop();
    pollerThreads.forEach(Worker::join);
    CompletableFuture<Void> released = CompletableFuture.runAsync(() -> poller.releaseAbandoned(false), calls);
    waitForHandlers(grace, () -> hurry);
    state.update(() -> List.copyOf(state.runs).forEach(run -> state.cancel(run, Cause.SHUTDOWN, null)));
    waitForHandlers(CANCEL_GRACE, () -> false);
    state.update(this::leaveHandlers);
    join(settlerThread);
    keeper.close();
    join(keeperThread);
    released.join();
    poller.releaseAbandoned(true);
    calls.shutdown();
    handlers.shutdown();
    health.close();
    transport.close();
    keeperTransport.close();
    events.emit(Event.of(Event.Name.STOPPED));
  }

  /** Gives up the leases of handlers that did not return. They expire. The settler ends. */
  private void leaveHandlers() {
    if (!state.runs.isEmpty()) {
      setError(new HandlersLeftException(state.runs.size()));
    }
    for (Run run : state.runs) {
      run.leases.stream().filter(lease -> lease.phase == HeldLease.Phase.RUNNING).forEach(state::drop);
    }
    state.settledAll = true;
    state.endingsReady.signal();
  }

  /** Waits until all handlers have returned, the time is over, or `stopEarly` is true. */
  private void waitForHandlers(long limit, BooleanSupplier stopEarly) {
    long until = Clock.now() + limit;
    state.read(
        () -> {
          long left = until - Clock.now();
          while (!state.runs.isEmpty() && !stopEarly.getAsBoolean() && left > 0) {
            try {
              left = state.changed.awaitNanos(left);
            } catch (InterruptedException interrupted) {
              Thread.currentThread().interrupt();
              return null; // The caller wants an end: the handlers are cancelled now.
            }
            left = until - Clock.now();
          }
          return null;
        });
  }

  private void onSignal() {
    if (stopping.getCount() == 0) {
      hurry = true;
      state.update(state.changed::signalAll);
    }
    stopping.countDown();
  }

  /** Ends the worker, because the broker refuses its calls. */
  private void onFatal(LeaseBrokerException refused) {
    setError(refused);
    options.logger().log(System.Logger.Level.ERROR, "the worker of queue {0} stops: {1}", options.queue(), refused.getMessage());
    stopping.countDown();
  }

  /** Keeps the first error. */
  private synchronized void setError(RuntimeException first) {
    if (error == null) {
      error = first;
    }
  }

  private void onRetry(Caller.Retrying retry) {
    Failure failure = retry.failure();
    String reason = failure.reason().isEmpty() ? null : failure.reason();
    Duration wait = Duration.ofNanos(retry.waitNanos());
    events.emit(
        Event.of(Event.Name.RETRY)
            .withReason(reason)
            .withError(failure.message())
            .withRetry(new Event.Retrying(retry.rpc(), failure.code().name(), retry.attempt(), wait)));
  }

  private static void await(CountDownLatch latch) {
    boolean interrupted = false;
    while (true) {
      try {
        latch.await();
        break;
      } catch (InterruptedException again) {
        interrupted = true;
      }
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  private static void join(Thread thread) {
    boolean interrupted = false;
    while (true) {
      try {
        thread.join();
        break;
      } catch (InterruptedException again) {
        interrupted = true;
      }
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  private static Thread startThread(String name, Runnable run) {
    Thread thread = new Thread(run, name);
    thread.setDaemon(true);
    thread.start();
    return thread;
  }

  /** Threads are daemons: a handler that never returns does not keep the process. */
  private static ThreadFactory threads(String name) {
    AtomicInteger count = new AtomicInteger();
    return run -> {
      Thread thread = new Thread(run, name + "-" + count.incrementAndGet());
      thread.setDaemon(true);
      return thread;
    };
  }

  /** The options of a worker. */
  public static final class Builder {
    private final String address;
    private final String queue;
    private final int batch;
    private final BatchHandler handler;
    private String workerId = Options.defaultWorkerId();
    private int concurrency = 1;
    private Duration lease;
    private boolean heartbeat = true;
    private Duration timeLimit;
    private Duration wait = Duration.ofSeconds(20);
    private Duration grace = Duration.ofSeconds(20);
    private Duration stuckAfter = Duration.ofSeconds(30);
    private int maxStuck;
    private Credentials credentials = Credentials.plaintext();
    private TokenSource token;
    private Consumer<Event> onEvent;
    private System.Logger logger = System.getLogger("com.example.leasebroker");
    private Executor executor;

    private Builder(String address, String queue, int batch, BatchHandler handler) {
      this.address = address;
      this.queue = queue;
      this.batch = batch;
      this.handler = handler;
    }

    /**
     * The name of the worker, for people who look for the holder of a lease. 1 to 128 characters. Default: the host, the
     * process id and random digits.
     */
    public Builder workerId(String id) {
      workerId = id;
      return this;
    }

    /** The number of handlers that run at the same time. Default: 1. */
    public Builder concurrency(int handlers) {
      concurrency = handlers;
      return this;
    }

    /** The duration of the leases. Default: the queue's. */
    public Builder lease(Duration duration) {
      lease = duration;
      return this;
    }

    /**
     * Turns heartbeats on or off. Default: on. Without them the lease is all the time that a handler has: after half of it the
     * handler is cancelled with {@link Cause#TIME_LIMIT}.
     */
    public Builder heartbeat(boolean on) {
      heartbeat = on;
      return this;
    }

    /**
     * The longest time that a handler may run. It is then cancelled with {@link Cause#TIME_LIMIT}, and its item fails unless the
     * handler returns within 5 s. Default: no limit.
     */
    public Builder timeLimit(Duration limit) {
      timeLimit = limit;
      return this;
    }

    /** The time that a claim waits for items, up to 60 s. Default: 20 s. */
    public Builder wait(Duration duration) {
      wait = duration;
      return this;
    }

    /**
     * The time that handlers have to return when the worker stops. They are then cancelled with {@link Cause#SHUTDOWN} and have
     * 5 s more. Keep the sum below the time that your supervisor waits. Default: 20 s.
     */
    public Builder grace(Duration duration) {
      grace = duration;
      return this;
    }

    /** The time after its cancellation at which a handler that still runs is reported as stuck. Default: 30 s. */
    public Builder stuckAfter(Duration duration) {
      stuckAfter = duration;
      return this;
    }

    /**
     * The number of stuck handlers that are replaced by another one. If more are stuck, the worker claims no more items and is
     * not healthy. Default: as the concurrency.
     */
    public Builder maxStuck(int handlers) {
      if (handlers < 1) {
        throw new IllegalArgumentException("maxStuck is " + handlers + "; it must be at least 1");
      }
      maxStuck = handlers;
      return this;
    }

    /** How the connection is protected. Default: plaintext, for this machine only. */
    public Builder credentials(Credentials value) {
      credentials = value;
      return this;
    }

    /** The source of a bearer token, which every call carries. Default: none. */
    public Builder token(TokenSource source) {
      token = source;
      return this;
    }

    /** Is called with every event, in the thread in which it happens. It must not block. Default: none. */
    public Builder onEvent(Consumer<Event> observer) {
      onEvent = observer;
      return this;
    }

    /** Receives the log. Default: the logger "com.example.leasebroker". */
    public Builder logger(System.Logger value) {
      logger = value;
      return this;
    }

    /**
     * Runs the handlers. It must start each of them at once, as an executor with a virtual thread per task does. Default: a
     * pool with one daemon thread per running handler.
     */
    public Builder executor(Executor value) {
      executor = value;
      return this;
    }

    /**
     * Makes the worker. It connects when it starts.
     *
     * @throws IllegalArgumentException if an option is out of its range
     */
    public Worker build() {
      Options options =
          new Options(
              parse(address), queue, workerId, concurrency, batch, lease, heartbeat, timeLimit, wait, grace, stuckAfter,
              maxStuck == 0 ? Math.max(concurrency, 1) : maxStuck, credentials, token, onEvent, logger, executor);
      return new Worker(options, handler);
    }
  }

  /** Returns the addresses of a list with commas. */
  static List<String> parse(String address) {
    List<String> addresses = Arrays.stream(address.split(",")).map(String::strip).filter(part -> !part.isEmpty()).toList();
    if (addresses.isEmpty()) {
      throw new IllegalArgumentException("the address is empty; pass host:port");
    }
    return addresses;
  }
}
