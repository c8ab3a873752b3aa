package com.example.leasebroker;

import com.example.leasebroker.v1.LeaseServiceGrpc;
import io.grpc.ChannelCredentials;
import io.grpc.ConnectivityState;
import io.grpc.Grpc;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import java.io.IOException;
import java.net.Inet6Address;
import java.net.InetAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import java.util.stream.Stream;

/** The connections to the brokers: a channel for each broker, which calls use in turn. */
final class Transport {
  static final String VERSION = "0.2.0";

  /** The time after which files of credentials are looked at again. */
  private static final long FILE_INTERVAL = 10 * Clock.SECOND;

  /** The time in which a connection must be ready. */
  private static final long CONNECT_TIMEOUT = 5 * Clock.SECOND;

  /**
   * The times for which a broker gets no calls if there are others: after an error, and after a call without an answer. The
   * connection of a process that hangs stays open, so only calls show that it works again.
   */
  private static final long PASS_OVER = Clock.SECOND;

  private static final long PASS_OVER_SILENT = 30 * Clock.SECOND;
  private static final long RESOLVE_INTERVAL = 5 * Clock.SECOND;

  /** Longer than any call. */
  private static final long CLOSE_AFTER = 90 * Clock.SECOND;

  private static final String NAME = "dns:///";

  /** The channel of a broker. */
  static final class Broker {
    private final String target;
    private final ManagedChannel channel;

    /** The moment from which it gets calls again. */
    private long freeAt;

    private Broker(String target, ManagedChannel channel) {
      this.target = target;
      this.channel = channel;
    }

    LeaseServiceGrpc.LeaseServiceBlockingStub stub() {
      return LeaseServiceGrpc.newBlockingStub(channel);
    }

    /** Waits for a connection while one is made. Returns false if that takes too long. */
    boolean awaitConnection(long timeout, Abort abort) throws Exception {
      long until = Clock.now() + CONNECT_TIMEOUT;
      ConnectivityState state = channel.getState(true);
      while (timeout > CONNECT_TIMEOUT && (state == ConnectivityState.IDLE || state == ConnectivityState.CONNECTING)) {
        CompletableFuture<Void> changed = new CompletableFuture<>();
        channel.notifyWhenStateChanged(state, () -> changed.complete(null));
        try {
          abort.await(changed, until - Clock.now());
        } catch (TimeoutException late) {
          return false;
        }
        state = channel.getState(false);
      }
      return true;
    }
  }

  private record Old(ManagedChannel channel, long closeAt) {}

  private final Credentials credentials;
  private final Consumer<String> warn;

  /** The host and port of a name whose addresses are all used. Null: the addresses are those of a list. */
  private final String name;

  /** Finds the addresses of a host. */
  @FunctionalInterface
  interface Lookup {
    InetAddress[] find(String host) throws IOException;
  }

  /** Is another one in a test. */
  Lookup lookup = InetAddress::getAllByName;

  /** The search for the first addresses of the name. */
  private CompletableFuture<Void> search = CompletableFuture.completedFuture(null);

  private List<Broker> brokers = new ArrayList<>();
  private int next;
  private boolean closed;
  private long resolvedAt;
  private long lookedAt = Clock.now();

  /** The credentials of new channels, and the versions of the files from which they were read. */
  private ChannelCredentials channelCredentials;

  private String versions;

  /** The versions of the files that were found missing or malformed. */
  private String refusedVersions;

  /** Channels that were replaced, with the moment from which no call needs them. */
  private final List<Old> old = new ArrayList<>();

  /** `warn` gets the warnings about the files of the credentials. */
  Transport(List<String> addresses, Credentials credentials, Consumer<String> warn) {
    this.credentials = credentials;
    this.warn = warn;
    versions = credentials.versions();
    channelCredentials = credentials.channel();
    String first = addresses.get(0);
    name = first.startsWith(NAME) ? withoutScheme(first) : null;
    if (name == null) {
      addresses.forEach(address -> brokers.add(connect(address)));
    }
  }

  /** Returns the host and port of an address such as dns:///localhost:50051. */
  static String withoutScheme(String address) {
    return address.startsWith(NAME) ? address.substring(NAME.length()) : address;
  }

  /** Waits for the first addresses of the name. It may take long, so that no lock is held, and calls share one search. */
  void awaitAddresses(long timeout, Abort abort) throws Exception {
    CompletableFuture<Void> running;
    synchronized (this) {
      if (name == null || !brokers.isEmpty()) {
        return;
      }
      if (search.isDone()) {
        CompletableFuture<Void> started = new CompletableFuture<>();
        Threads.start("lease-broker-resolver", () -> resolve(started));
        search = started;
      }
      running = search;
    }
    abort.await(running, timeout);
  }

  /** Returns the broker for the next call, after {@link #awaitAddresses}. */
  synchronized Broker route() {
    long now = Clock.now();
    if (now - lookedAt >= FILE_INTERVAL) {
      lookAtFiles(now);
    }
    if (name != null && now - resolvedAt >= RESOLVE_INTERVAL && brokers.stream().anyMatch(broker -> broker.freeAt > 0)) {
      resolvedAt = now;
      // If it fails, the addresses that were found before may work again.
      Threads.start("lease-broker-resolver", () -> resolve(new CompletableFuture<>()));
    }
    int index = next;
    for (int step = brokers.size() - 1; step >= 0; step--) {
      int candidate = (next + step) % brokers.size();
      if (brokers.get(candidate).freeAt <= now) {
        index = candidate;
      }
    }
    next = (index + 1) % brokers.size();
    return brokers.get(index % brokers.size());
  }

  /** Notes that a call of the broker was answered. */
  synchronized void noteAnswer(Broker broker) {
    broker.freeAt = 0;
  }

  /**
   * Notes that the next call needs another broker. `silent`: there was no answer in time. A connection can be dead without an
   * error, for example after a firewall has forgotten it, so a new one is made.
   */
  synchronized void noteFailure(Broker broker, boolean silent) {
    long now = Clock.now();
    broker.freeAt = now + (silent ? PASS_OVER_SILENT : PASS_OVER);
    if (brokers.stream().allMatch(each -> each.freeAt > now)) {
      // Each has failed. One that was silent may have come back, as well as one that refuses may.
      brokers.stream().filter(each -> each != broker).forEach(each -> each.freeAt = now);
    }
    if (silent) {
      replace(broker);
    }
  }

  /** Connects at once if a connection waits before it tries again. Its waits have no option, and grow to 120 s. */
  synchronized void reconnect() {
    brokers.forEach(broker -> broker.channel.resetConnectBackoff());
  }

  synchronized void close() {
    closed = true;
    Stream.concat(brokers.stream().map(broker -> broker.channel), old.stream().map(Old::channel)).forEach(ManagedChannel::shutdownNow);
  }

  private Broker connect(String target) {
    ManagedChannelBuilder<?> builder =
        Grpc.newChannelBuilder(target, channelCredentials)
            // Caller sends requests again.
            .disableRetry()
            .disableServiceConfigLookUp()
            // Finds a connection that is dead at one end while a claim waits.
            .keepAliveTime(20, TimeUnit.SECONDS)
            .keepAliveTimeout(10, TimeUnit.SECONDS)
            // The broker bounds its responses, but one row may be larger than the default.
            .maxInboundMessageSize(Integer.MAX_VALUE)
            .userAgent("lease-broker-java/" + VERSION);
    // The certificate of a broker has the name and not the number that was found for it.
    String authority = credentials.serverName() != null ? credentials.serverName() : name;
    if (authority != null) {
      builder.overrideAuthority(authority);
    }
    return new Broker(target, builder.build());
  }

  /** Makes a new channel in the place of another one. Calls that run keep the old one. */
  private void replace(Broker broker) {
    int index = brokers.indexOf(broker);
    if (index >= 0 && !closed) {
      Broker replacement = connect(broker.target);
      replacement.freeAt = broker.freeAt;
      brokers.set(index, replacement);
      old.add(new Old(broker.channel, Clock.now() + CLOSE_AFTER));
    }
  }

  /** Reads certificates again that have changed, and closes old channels. */
  synchronized void lookAtFiles(long now) {
    lookedAt = now;
    old.stream().filter(each -> each.closeAt <= now).forEach(each -> each.channel.shutdownNow());
    old.removeIf(each -> each.closeAt <= now);
    String found = credentials.versions();
    if (found.equals(versions)) {
      return;
    }
    try {
      channelCredentials = credentials.channel();
    } catch (RuntimeException refused) {
      // The files may be in the middle of their replacement.
      if (!found.equals(refusedVersions)) {
        warn.accept("the changed files of the credentials are not used: " + refused.getMessage());
      }
      refusedVersions = found;
      return;
    }
    versions = found;
    List.copyOf(brokers).forEach(this::replace);
  }

  private void resolve(CompletableFuture<Void> result) {
    try {
      List<String> targets = resolve();
      synchronized (this) {
        if (closed) {
          throw new IOException("the client is closed");
        }
        set(targets);
      }
      result.complete(null);
    } catch (Throwable unknown) {
      result.completeExceptionally(unknown);
    }
  }

  private List<String> resolve() throws IOException {
    int colon = name.lastIndexOf(':');
    String port = name.substring(colon);
    return Stream.of(lookup.find(name.substring(0, colon)))
        .map(address -> (address instanceof Inet6Address ? "[" + address.getHostAddress() + "]" : address.getHostAddress()) + port)
        .distinct().sorted().toList();
  }

  /** Sets the list of brokers, and keeps the connections of those that remain. */
  private void set(List<String> targets) {
    List<Broker> before = brokers;
    brokers = new ArrayList<>();
    for (String target : targets) {
      brokers.add(before.stream().filter(broker -> broker.target.equals(target)).findFirst().orElseGet(() -> connect(target)));
    }
    before.stream().filter(broker -> !brokers.contains(broker)).forEach(broker -> broker.channel.shutdown());
  }
}
