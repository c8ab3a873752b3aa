package com.example.leasebroker;

import io.grpc.ChannelCredentials;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannelRegistry;
import io.grpc.TlsChannelCredentials;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.security.cert.CertificateException;
import java.security.cert.CertificateFactory;
import java.util.List;
import java.util.Objects;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** How a connection is protected. */
public final class Credentials {
  private final Supplier<ChannelCredentials> channel;

  /** The files that are read for each new connection. */
  private final List<Path> files;

  private final boolean allowsEveryAddress;
  private final String serverName;

  private Credentials(Supplier<ChannelCredentials> channel, List<Path> files, boolean allowsEveryAddress, String serverName) {
    this.channel = channel;
    this.files = files;
    this.allowsEveryAddress = allowsEveryAddress;
    this.serverName = serverName;
  }

  /** No encryption, the default. Only addresses of this machine are accepted. */
  public static Credentials plaintext() {
    return new Credentials(InsecureChannelCredentials::create, List.of(), false, null);
  }

  /** No encryption, and every address is accepted. Use it if the network is trusted. */
  public static Credentials plaintextAllowed() {
    return new Credentials(InsecureChannelCredentials::create, List.of(), true, null);
  }

  /** TLS that trusts the system's authorities. */
  public static Credentials tls() {
    return tls((byte[]) null, null, null, null);
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
    ChannelCredentials channel = channel(ca, cert, key);
    return new Credentials(() -> channel, List.of(), true, serverName);
  }

  /**
   * TLS with files, which are looked at again every 10 s. The arguments are as above. While a file is missing or malformed, the
   * connections stay as they are, and the log has one warning.
   *
   * @throws UncheckedIOException if a file cannot be read
   * @throws IllegalArgumentException if a text is malformed
   */
  public static Credentials tls(Path ca, Path cert, Path key, String serverName) {
    Supplier<ChannelCredentials> channel = () -> channel(read(ca), read(cert), read(key));
    channel.get();
    return new Credentials(channel, Stream.of(ca, cert, key).filter(Objects::nonNull).toList(), true, serverName);
  }

  private static byte[] read(Path file) {
    try {
      return file == null ? null : Files.readAllBytes(file);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  /** Returns a text that differs after a file was replaced. */
  String versions() {
    return files.stream().map(Credentials::version).collect(Collectors.joining(","));
  }

  private static String version(Path file) {
    try {
      BasicFileAttributes found = Files.readAttributes(file, BasicFileAttributes.class);
      return found.lastModifiedTime() + " " + found.size() + " " + found.fileKey();
    } catch (IOException missing) {
      return "missing";
    }
  }

  private static ChannelCredentials channel(byte[] ca, byte[] cert, byte[] key) {
    TlsChannelCredentials.Builder tls = TlsChannelCredentials.newBuilder();
    try {
      if (ca != null) {
        if (CertificateFactory.getInstance("X.509").generateCertificates(new ByteArrayInputStream(ca)).isEmpty()) {
          throw new IllegalArgumentException("the ca has no certificate in PEM form");
        }
        tls.trustManager(new ByteArrayInputStream(ca));
      }
      if (cert != null || key != null) {
        if (cert == null || key == null) {
          throw new IllegalArgumentException("a certificate needs its key, and a key its certificate");
        }
        tls.keyManager(new ByteArrayInputStream(cert), new ByteArrayInputStream(key));
      }
      ChannelCredentials credentials = tls.build();
      // gRPC reads the texts when it makes a channel, so only that shows if they are malformed.
      Grpc.newChannelBuilder("localhost:1", credentials);
      return credentials;
    } catch (IOException | CertificateException | ManagedChannelRegistry.ProviderNotFoundException malformed) {
      throw new IllegalArgumentException("the certificates or the key are malformed: " + malformed.getMessage(), malformed);
    }
  }

  ChannelCredentials channel() {
    return channel.get();
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
    String host = Transport.withoutScheme(address);
    host = host.substring(0, host.lastIndexOf(':'));
    if (host.equalsIgnoreCase("localhost")) {
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
