package com.example.leasebroker;

import io.grpc.Attributes;
import io.grpc.EquivalentAddressGroup;
import io.grpc.NameResolver;
import io.grpc.NameResolverProvider;
import io.grpc.NameResolverRegistry;
import io.grpc.StatusOr;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.net.URI;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Set;

/** Resolves targets such as "lease-broker:///host1:50051,host2:50051", for which gRPC has no scheme. */
final class AddressList extends NameResolverProvider {
  private static final String SCHEME = "lease-broker";

  static {
    NameResolverRegistry.getDefaultRegistry().register(new AddressList());
  }

  private AddressList() {}

  static String target(List<String> addresses) {
    // A path cannot have the brackets of an IPv6 address.
    return SCHEME + ":///" + String.join(",", addresses).replace("[", "%5B").replace("]", "%5D");
  }

  @Override
  protected boolean isAvailable() {
    return true;
  }

  @Override
  protected int priority() {
    return 5;
  }

  @Override
  public String getDefaultScheme() {
    return SCHEME;
  }

  @Override
  public Collection<Class<? extends SocketAddress>> getProducedSocketAddressTypes() {
    return Set.of(InetSocketAddress.class);
  }

  @Override
  public NameResolver newNameResolver(URI target, NameResolver.Args args) {
    if (!SCHEME.equals(target.getScheme())) {
      return null;
    }
    String[] addresses = target.getPath().substring(1).split(",");
    return new NameResolver() {
      @Override
      public String getServiceAuthority() {
        return addresses[0];
      }

      @Override
      public void start(Listener2 listener) {
        List<EquivalentAddressGroup> groups = Arrays.stream(addresses).map(AddressList::group).toList();
        listener.onResult(ResolutionResult.newBuilder().setAddressesOrError(StatusOr.fromValue(groups)).build());
      }

      @Override
      public void shutdown() {}
    };
  }

  /** Returns an address. Its certificate must have the name of its own host. */
  private static EquivalentAddressGroup group(String address) {
    int colon = address.lastIndexOf(':');
    String host = address.substring(0, colon).replaceAll("[\\[\\]]", "");
    SocketAddress socket = new InetSocketAddress(host, Integer.parseInt(address.substring(colon + 1)));
    Attributes attributes = Attributes.newBuilder().set(EquivalentAddressGroup.ATTR_AUTHORITY_OVERRIDE, address).build();
    return new EquivalentAddressGroup(socket, attributes);
  }
}
