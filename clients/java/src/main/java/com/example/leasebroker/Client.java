package com.example.leasebroker;

import com.example.leasebroker.v1.EnqueueRequest;
import com.example.leasebroker.v1.EnqueueResponse;
import com.example.leasebroker.v1.EnqueueResult;
import com.example.leasebroker.v1.LeaseServiceGrpc.LeaseServiceBlockingStub;
import com.example.leasebroker.v1.NewItem;
import com.example.leasebroker.v1.WakeRequest;
import io.grpc.Status;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;

/** A connection for producers: adds rows to queues and wakes waiting claims. */
public final class Client implements AutoCloseable {
  /** The size of the rows of one call, below the broker's 4 MiB. */
  private static final int MAX_CALL_BYTES = 3 << 20;

  /** A value counts as at least this size, because a call has at most 65,536 values. */
  private static final int MIN_VALUE_BYTES = MAX_CALL_BYTES / 65_536;

  private final Transport transport;
  private final Caller caller;
  private final Duration timeout;

  /** Ends the calls of a client that is closed. */
  private final Abort closed = new Abort();

  private Client(Builder builder) {
    List<String> addresses = Worker.parse(builder.address);
    builder.credentials.check(addresses);
    timeout = builder.timeout;
    System.Logger logger = builder.logger;
    transport = new Transport(addresses, builder.credentials, text -> logger.log(System.Logger.Level.WARNING, text));
    caller =
        new Caller(
            transport, builder.token, failure -> {},
            retry -> logger.log(System.Logger.Level.DEBUG, "retry of {0} after {1}: {2}", retry.rpc(), retry.failure().code(), retry.failure().message()));
  }

  /** Makes a client with the default options. The address is as for {@link Worker#builder}. */
  public static Client connect(String address) {
    return builder(address).build();
  }

  /** Begins a client. */
  public static Builder builder(String address) {
    return new Builder(address);
  }

  /** Adds rows that are ready immediately. Returns their keys in order. */
  public List<String> enqueue(String queue, List<? extends Map<String, ?>> rows) {
    return enqueue(queue, rows, null, null);
  }

  /**
   * Adds rows and returns their keys in order. Rows beyond the first 1,000, or beyond 3 MiB, are sent by further calls. Each
   * call adds its rows once, even if it is sent again.
   *
   * @param delay the time until the rows are ready, up to 366 days. Null: they are ready immediately
   * @param traceParent the W3C trace context that the leases of the rows continue. Empty: none. Null: that of the current span,
   *     if OpenTelemetry is on the class path
   * @throws LeaseBrokerException if the broker refuses a row. The rows of that call are not added. {@link LeaseBrokerException#keys}
   *     are those of the rows that earlier calls have added
   * @throws IllegalArgumentException if the value of a row cannot be sent. No row is added
   */
  public List<String> enqueue(String queue, List<? extends Map<String, ?>> rows, Duration delay, String traceParent) {
    String trace = traceParent == null ? Tracing.current() : traceParent;
    List<NewItem> items = new ArrayList<>();
    rows.forEach(row -> items.add(FollowUp.newItem(row, delay, trace)));
    List<String> keys = new ArrayList<>();
    while (keys.size() < items.size()) {
      try {
        keys.addAll(send(queue, firstCall(items.subList(keys.size(), items.size()))));
      } catch (LeaseBrokerException error) {
        throw keys.isEmpty() ? error : error.afterRows(keys);
      }
    }
    return keys;
  }

  /** Returns a request with as many of the items as one call can carry. */
  private static EnqueueRequest.Builder firstCall(List<NewItem> items) {
    EnqueueRequest.Builder request = EnqueueRequest.newBuilder();
    int size = 0;
    for (NewItem item : items) {
      size += Math.max(item.getSerializedSize(), MIN_VALUE_BYTES * item.getColumnsCount());
      if (request.getItemsCount() == Options.MAX_ITEMS_PER_CALL || request.getItemsCount() > 0 && size > MAX_CALL_BYTES) {
        break;
      }
      request.addItems(item);
    }
    return request;
  }

  private List<String> send(String queue, EnqueueRequest.Builder request) {
    request.setQueue(queue).setRequestId(UUID.randomUUID().toString());
    Caller.Answer<EnqueueResponse> answer = call("Enqueue", LeaseServiceBlockingStub::enqueue, request.build());
    Failure failure = Failure.ofCount(answer.message().getResultsCount(), request.getItemsCount());
    if (failure != null) {
      throw new LeaseBrokerException("Enqueue", failure);
    }
    return answer.message().getResultsList().stream().map(EnqueueResult::getKey).toList();
  }

  /** Lets waiting claims look for items now. Call it after rows were added by SQL. */
  public void wake(String queue) {
    WakeRequest request = WakeRequest.newBuilder().setQueue(queue).build();
    call("Wake", LeaseServiceBlockingStub::wake, request);
  }

  /** Closes the connection. Calls that run, and later ones, throw a {@link LeaseBrokerException}. */
  @Override
  public void close() {
    closed.cancel();
    transport.close();
  }

  private <Q, R> Caller.Answer<R> call(String rpc, Caller.Method<Q, R> method, Q request) {
    String applied = closed.isCancelled() ? Failure.APPLIED_NO : Failure.APPLIED_UNKNOWN;
    long until = Clock.now() + Values.nanos(timeout);
    try {
      return caller.call(rpc, method, request, new Caller.Limits(() -> until, Caller.ATTEMPT_TIMEOUT, closed, () -> {}));
    } catch (Abort.Aborted ended) {
      throw new LeaseBrokerException(rpc, Failure.of(Status.Code.FAILED_PRECONDITION, "the client is closed", applied));
    }
  }

  /** The options of a client. */
  public static final class Builder {
    private final String address;
    private Credentials credentials = Credentials.plaintext();
    private TokenSource token;
    private Duration timeout = Duration.ofSeconds(60);
    private System.Logger logger = System.getLogger("com.example.leasebroker");

    private Builder(String address) {
      this.address = Objects.requireNonNull(address, "address");
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

    /** The time for which a call is sent again while no broker answers. Default: 60 s. */
    public Builder timeout(Duration value) {
      timeout = Objects.requireNonNull(value, "timeout");
      return this;
    }

    /** Receives the log. Default: the logger "com.example.leasebroker". */
    public Builder logger(System.Logger value) {
      logger = Objects.requireNonNull(value, "logger");
      return this;
    }

    /**
     * Makes the client. It connects with the first call.
     *
     * @throws IllegalArgumentException if the address is malformed, or the timeout is negative
     */
    public Client build() {
      if (timeout.isNegative()) {
        throw new IllegalArgumentException("timeout is " + timeout + "; it must not be negative");
      }
      return new Client(this);
    }
  }
}
