package com.example.leasebroker;

import com.example.leasebroker.v1.Completion;
import com.example.leasebroker.v1.Failure;
import com.google.protobuf.ByteString;
import java.time.Duration;

/**
 * How an item ends, as its handler said it. One of the messages is set, and the others are null.
 *
 * @param lease the lease of the item
 */
record Ending(HeldLease lease, Completion completion, Failure failure, com.example.leasebroker.v1.Release release) {
  /** The number of characters of an error's text that the broker stores. */
  private static final int MAX_ERROR_LENGTH = 1_024;

  private static final int MAX_CAUSES = 100;

  /** Throws any exception if the result is malformed. */
  static Ending completed(HeldLease lease, Result result) {
    Completion.Builder message = Completion.newBuilder().setLeaseId(lease.id);
    if (result != null) {
      message.putAllColumns(Values.toProto(result.columns()));
      result.followUps().forEach(followUp -> message.addFollowUps(followUp.toProto()));
    }
    return new Ending(lease, message.build(), null, null);
  }

  /** Returns the name of the call that settles the item. */
  String rpc() {
    return completion != null ? "Complete" : failure != null ? "Fail" : "Release";
  }

  static Ending failed(HeldLease lease, String text) {
    return failed(lease, text, null, false);
  }

  static Ending failed(HeldLease lease, String text, Duration after, boolean dead) {
    Failure.Builder message = Failure.newBuilder().setLeaseId(lease.id).setErrorMessage(cut(text)).setDeadLetter(dead);
    if (after != null) {
      message.setRetryDelay(Values.duration(after));
    }
    return new Ending(lease, null, message.build(), null);
  }

  static Ending released(HeldLease lease, Duration after) {
    var message = com.example.leasebroker.v1.Release.newBuilder().setLeaseId(lease.id);
    if (after != null) {
      message.setDelay(Values.duration(after));
    }
    return new Ending(lease, null, null, message.build());
  }

  /** Returns the first exception that says how the item ends, among an exception and its causes. Null: there is none. */
  static Throwable decision(Throwable error) {
    Throwable cause = error;
    // The causes can form a circle.
    for (int depth = 0; depth < MAX_CAUSES && cause != null; depth++) {
      if (cause instanceof Retry || cause instanceof DeadLetter || cause instanceof Release) {
        return cause;
      }
      cause = cause.getCause();
    }
    return null;
  }

  /** Returns the ending for an exception. `cause` says why the handler was cancelled; null: it was not. */
  static Ending of(HeldLease lease, Throwable error, Cause cause, Duration timeLimit) {
    Throwable decision = decision(error);
    if (decision instanceof Release release) {
      return released(lease, release.after());
    } else if (decision instanceof DeadLetter) {
      return failed(lease, errorText(error), null, true);
    } else if (decision instanceof Retry retry) {
      return failed(lease, errorText(error), retry.after(), false);
    } else if (cause == Cause.SHUTDOWN) {
      return released(lease, null);
    } else if (cause == Cause.TIME_LIMIT && (error instanceof CancelledException || error instanceof InterruptedException)) {
      return failed(lease, timeLimitText(timeLimit));
    }
    return failed(lease, errorText(error));
  }

  /** Returns the ending with this checkpoint, or without one. A completion needs none. */
  Ending withCheckpoint(ByteString checkpoint) {
    if (failure != null) {
      Failure.Builder message = failure.toBuilder().clearCheckpoint();
      return new Ending(lease, null, (checkpoint == null ? message : message.setCheckpoint(checkpoint)).build(), null);
    } else if (release != null) {
      var message = release.toBuilder().clearCheckpoint();
      return new Ending(lease, null, null, (checkpoint == null ? message : message.setCheckpoint(checkpoint)).build());
    }
    return this;
  }

  /** Returns the checkpoint that the ending carries, or null. */
  ByteString checkpoint() {
    if (failure != null) {
      return failure.hasCheckpoint() ? failure.getCheckpoint() : null;
    }
    return release != null && release.hasCheckpoint() ? release.getCheckpoint() : null;
  }

  /** Returns the ending without its delay. Null: it has none. */
  Ending withoutDelay() {
    if (failure != null && failure.hasRetryDelay()) {
      return new Ending(lease, null, failure.toBuilder().clearRetryDelay().build(), null);
    } else if (release != null && release.hasDelay()) {
      return new Ending(lease, null, null, release.toBuilder().clearDelay().build());
    }
    return null;
  }

  int followUps() {
    return completion == null ? 0 : completion.getFollowUpsCount();
  }

  int size() {
    if (completion != null) {
      return completion.getSerializedSize();
    }
    return failure != null ? failure.getSerializedSize() : release.getSerializedSize();
  }

  /** Returns the text that is stored on the row: the name of the exception's type and its message. */
  static String errorText(Throwable error) {
    String message;
    try {
      message = error.getMessage();
    } catch (Throwable broken) {
      message = null;
    }
    String name = error.getClass().getSimpleName();
    name = name.isEmpty() ? error.getClass().getName() : name;
    return message == null || message.isEmpty() ? name : name + ": " + message;
  }

  static String timeLimitText(Duration limit) {
    if (limit == null) {
      return "time limit of half of the lease";
    }
    String seconds = java.math.BigDecimal.valueOf(limit.getSeconds()).add(java.math.BigDecimal.valueOf(limit.getNano(), 9)).stripTrailingZeros().toPlainString();
    return "time limit of " + seconds + " s";
  }

  private static String cut(String text) {
    int end = text.codePointCount(0, text.length()) <= MAX_ERROR_LENGTH ? text.length() : text.offsetByCodePoints(0, MAX_ERROR_LENGTH);
    return text.substring(0, end);
  }
}
