package com.example.leasebroker;

import io.grpc.ChannelCredentials;
import io.grpc.InsecureChannelCredentials;
import io.grpc.TlsChannelCredentials;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.List;

/** How a connection is protected. */
public final class Credentials {
  private final ChannelCredentials channel;
  private final boolean allowsEveryAddress;
  private final String serverName;

  private Credentials(ChannelCredentials channel, boolean allowsEveryAddress, String serverName) {
    this.channel = channel;
    this.allowsEveryAddress = allowsEveryAddress;
    this.serverName = serverName;
  }

  /** No encryption, the default. Only addresses of this machine are accepted. */
  public static Credentials plaintext() {
    return new Credentials(InsecureChannelCredentials.create(), false, null);
  }

  /** No encryption, and every address is accepted. Use it if the network is trusted. */
  public static Credentials plaintextAllowed() {
    return new Credentials(InsecureChannelCredentials.create(), true, null);
  }

  /** TLS that trusts the system's authorities. */
  public static Credentials tls() {
    return tls(null, null, null, null);
  }

  /**
   * TLS.
   *
   * @param ca the certificates of the trusted authorities, in PEM form. Null: those of the system
   * @param cert the certificate by which this program identifies itself, in PEM form, or null
   * @param key its key, in PEM form (PKCS 8), or null
   * @param serverName the name in the broker's certificate. Null: the host of the address
   * @throws IllegalArgumentException if a text is malformed
   */
  public static Credentials tls(byte[] ca, byte[] cert, byte[] key, String serverName) {
    TlsChannelCredentials.Builder tls = TlsChannelCredentials.newBuilder();
    try {
      if (ca != null) {
        tls.trustManager(new ByteArrayInputStream(ca));
      }
      if (cert != null || key != null) {
        if (cert == null || key == null) {
          throw new IllegalArgumentException("a certificate needs its key, and a key its certificate");
        }
        tls.keyManager(new ByteArrayInputStream(cert), new ByteArrayInputStream(key));
      }
    } catch (IOException impossible) {
      throw new UncheckedIOException(impossible);
    }
    return new Credentials(tls.build(), true, serverName);
  }

  ChannelCredentials channel() {
    return channel;
  }

  String serverName() {
    return serverName;
  }

  /** Throws if plaintext would be sent to another machine. */
  void check(List<String> addresses) {
    for (String address : addresses) {
      if (!allowsEveryAddress && !isLoopback(address)) {
        throw new IllegalArgumentException(
            address + " is not an address of this machine: use Credentials.tls, or Credentials.plaintextAllowed if the network is trusted");
      }
    }
  }

  static boolean isLoopback(String address) {
    if (address.startsWith("unix:")) {
      return true;
    }
    String host = address.substring(address.lastIndexOf('/') + 1);
    int colon = host.lastIndexOf(':');
    host = colon < 0 ? host : host.substring(0, colon);
    if (host.equals("localhost")) {
      return true;
    }
    boolean isNumeric = host.startsWith("[") || host.matches("[0-9.]+");
    try {
      return isNumeric && InetAddress.getByName(host).isLoopbackAddress();
    } catch (UnknownHostException malformed) {
      return false;
    }
  }
}
