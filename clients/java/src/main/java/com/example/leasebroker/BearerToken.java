package com.example.leasebroker;

import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.Executors;

/**
 * Reads the bearer token of each attempt. A source of the program is called in a thread of its own, because it may never return, and so
 * is a file.
 */
final class BearerToken {
  /** A source of this library. */
  interface BuiltIn extends TokenSource {
    /** True if the source returns at once. */
    default boolean isReady(boolean fresh) {
      return true;
    }
  }

  private static final Executor THREADS = Executors.newCachedThreadPool(Threads.factory("lease-broker-token"));

  private final TokenSource source;

  /** The calls that have not returned, by `fresh`. Another attempt waits for the same call. */
  private final Map<Boolean, CompletableFuture<String>> calls = new ConcurrentHashMap<>();

  BearerToken(TokenSource source) {
    this.source = source;
  }

  /** Returns the token. Throws {@link Abort.Aborted} if it is cancelled first. */
  String read(boolean fresh, long timeoutNanos, Abort abort) throws Exception {
    if (source instanceof BuiltIn builtIn && builtIn.isReady(fresh)) {
      return check(source.token(fresh));
    }
    return check(abort.await(calls.computeIfAbsent(fresh, this::begin), timeoutNanos));
  }

  private CompletableFuture<String> begin(boolean fresh) {
    CompletableFuture<String> call = new CompletableFuture<>();
    THREADS.execute(
        () -> {
          try {
            call.complete(source.token(fresh));
          } catch (Throwable error) {
            call.completeExceptionally(error);
          } finally {
            calls.remove(fresh, call);
          }
        });
    return call;
  }

  /** Returns a token without the white space around it. Throws if it cannot be sent. The error does not contain the token. */
  static String check(String token) {
    String text = token == null ? "" : token.strip();
    if (text.isEmpty()) {
      throw new IllegalArgumentException("the token is empty");
    }
    for (int i = 0; i < text.length(); i++) {
      if (text.charAt(i) < ' ' || text.charAt(i) > '~') {
        throw new IllegalArgumentException("character " + (i + 1) + " of the token is not a printable ASCII character");
      }
    }
    return text;
  }
}
