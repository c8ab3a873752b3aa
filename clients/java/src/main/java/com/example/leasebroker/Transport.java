package com.example.leasebroker;

import com.example.leasebroker.v1.LeaseServiceGrpc;
import io.grpc.Grpc;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** A connection to one broker or to several. It connects with the first call. */
final class Transport {
  static final String VERSION = "0.2.0";

  private final ManagedChannel channel;

  Transport(List<String> addresses, Credentials credentials) {
    boolean several = addresses.size() > 1;
    String target = several ? AddressList.target(addresses) : addresses.get(0);
    ManagedChannelBuilder<?> builder =
        Grpc.newChannelBuilder(target, credentials.channel())
            // Caller sends requests again.
            .disableRetry()
            .disableServiceConfigLookUp()
            .defaultLoadBalancingPolicy("round_robin")
            // Finds a connection that is dead at one end while a claim waits.
            .keepAliveTime(20, TimeUnit.SECONDS)
            .keepAliveTimeout(10, TimeUnit.SECONDS)
            // The broker bounds its responses, but one row may be larger than the default.
            .maxInboundMessageSize(Integer.MAX_VALUE)
            .userAgent("lease-broker-java/" + VERSION);
    if (several || target.startsWith("dns:")) {
      // A broker that drains says so by its health, and calls go to another. With a single address there is no other. If a
      // load balancer is behind it, the health of one broker says nothing about the next.
      builder.defaultServiceConfig(Map.of("healthCheckConfig", Map.of("serviceName", LeaseServiceGrpc.SERVICE_NAME)));
    }
    if (credentials.serverName() != null) {
      builder.overrideAuthority(credentials.serverName());
    }
    channel = builder.build();
  }

  LeaseServiceGrpc.LeaseServiceBlockingStub stub() {
    return LeaseServiceGrpc.newBlockingStub(channel);
  }

  /** Connects at once if the connection waits before it tries again. Its waits have no option, and grow to 120 s. */
  void reconnect() {
    channel.resetConnectBackoff();
  }

  void close() {
    channel.shutdownNow();
  }
}
