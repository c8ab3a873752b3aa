package com.example.leasebroker;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * The source of a bearer token. It is asked before each attempt to send a request, in a thread of its own. Attempts that wait for
 * it share its answer. If it throws, the attempt is made again later.
 */
@FunctionalInterface
public interface TokenSource {
  /**
   * Returns the token.
   *
   * @param fresh true if the broker has refused the token before
   */
  String token(boolean fresh) throws IOException;

  /**
   * A token that never changes. White space around it is removed, as around every token.
   *
   * @throws IllegalArgumentException if the text cannot be sent, or is the name of a file: the name would be sent as the token
   */
  static TokenSource of(String token) {
    if (!token.isBlank() && token.length() < 1_024 && new java.io.File(token).exists()) {
      throw new IllegalArgumentException("token: " + token + " is a file: use TokenSource.ofFile");
    }
    String checked = BearerToken.check(token);
    return (BearerToken.BuiltIn) fresh -> checked;
  }

  /** A token in a file, which is read again every 10 s, and after the broker has refused the token. */
  static TokenSource ofFile(Path path) {
    return new BearerToken.BuiltIn() {
      private static final long INTERVAL_NANOS = 10_000_000_000L;
      private volatile String token;
      private volatile long readAt;

      @Override
      public boolean isReady(boolean fresh) {
        return !fresh && token != null && System.nanoTime() - readAt < INTERVAL_NANOS;
      }

      @Override
      public String token(boolean fresh) throws IOException {
        if (!isReady(fresh)) {
          // A file that is being written can be empty. It is not kept.
          token = BearerToken.check(Files.readString(path));
          readAt = System.nanoTime();
        }
        return token;
      }
    };
  }
}
