package com.example.leasebroker;

import com.example.leasebroker.v1.CallError;
import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * The error of one attempt to send a request.
 *
 * @param reason the broker's reason. Empty: the error does not come from the broker
 * @param fields the paths of the refused fields
 * @param applied whether the attempt has changed anything: {@link #APPLIED_NO} or {@link #APPLIED_UNKNOWN}
 * @param pushbackNanos the time that the broker asks to wait. Negative: the request must not be sent again. Null: not given
 */
record Failure(Status.Code code, String reason, String message, List<String> fields, String applied, Long pushbackNanos) implements Serializable {
  static final String APPLIED_NO = "no";
  static final String APPLIED_PARTLY = "partly";
  static final String APPLIED_UNKNOWN = "unknown";

  /** Stands for the refusal of entries whose rows another transaction has locked. */
  static final Failure OF_LOCK =
      new Failure(Status.Code.UNAVAILABLE, "LOCKED", "another transaction has locked the row", List.of(), APPLIED_NO, null);

  /** Ends the search in a ring of causes. */
  private static final int MAX_CAUSES = 20;

  private static final Metadata.Key<String> PUSHBACK =
      Metadata.Key.of("grpc-retry-pushback-ms", Metadata.ASCII_STRING_MARSHALLER);

  static Failure of(Status.Code code, String message, String applied) {
    return new Failure(code, "", message, List.of(), applied, null);
  }

  /** Returns the error of an answer that has not one result for each entry of the request, or null. It is not temporary. */
  static Failure ofCount(int results, int entries) {
    String message = "the answer has " + results + " results for " + entries + " entries";
    return results == entries ? null : new Failure(Status.Code.INTERNAL, "", message, List.of(), APPLIED_UNKNOWN, -1L);
  }

  /** Reads the error of a claim that was part of another call. */
  static Failure read(CallError error) {
    Long pushback = error.hasRetryDelay() ? Values.nanos(error.getRetryDelay()) : null;
    return new Failure(
        Status.fromCodeValue(error.getCode()).getCode(), error.getReason(), error.getMessage(), List.of(),
        readApplied(error.getMetadataMap()), pushback);
  }

  private static String readApplied(Map<String, String> metadata) {
    return APPLIED_NO.equals(metadata.get("applied")) ? APPLIED_NO : APPLIED_UNKNOWN;
  }

  /** Returns the failure of a request of which an earlier attempt may have been applied. */
  Failure withUnknownApplied() {
    return new Failure(code, reason, message, fields, APPLIED_UNKNOWN, pushbackNanos);
  }

  static Failure read(Throwable error) {
    Status status = Status.fromThrowable(error);
    String reason = "";
    String applied = APPLIED_UNKNOWN;
    Long pushback = null;
    List<String> fields = new ArrayList<>();
    com.google.rpc.Status details = StatusProto.fromThrowable(error);
    if (details != null) {
      try {
        for (Any detail : details.getDetailsList()) {
          if (detail.is(ErrorInfo.class)) {
            ErrorInfo info = detail.unpack(ErrorInfo.class);
            if (info.getDomain().equals("leasebroker")) {
              reason = info.getReason();
              applied = readApplied(info.getMetadataMap());
            }
          } else if (detail.is(RetryInfo.class)) {
            pushback = Values.nanos(detail.unpack(RetryInfo.class).getRetryDelay());
          } else if (detail.is(BadRequest.class)) {
            detail.unpack(BadRequest.class).getFieldViolationsList().forEach(field -> fields.add(field.getField()));
          }
        }
      } catch (InvalidProtocolBufferException malformed) {
        // The status code still says what has happened.
      }
    }
    Metadata trailers = Status.trailersFromThrowable(error);
    String text = trailers == null ? null : trailers.get(PUSHBACK);
    if (text != null) {
      pushback = parsePushback(text);
    }
    String message = status.getDescription() == null ? "" : status.getDescription();
    String cause = causeText(status.getCause());
    if (!cause.isEmpty()) {
      // The further lines are about gRPC's own parts.
      message = message.isEmpty() ? cause : message.lines().findFirst().orElse("") + ": " + cause;
    }
    return new Failure(status.getCode(), reason, message, List.copyOf(fields), applied, pushback).withContentTooLarge();
  }

  /**
   * Gives the HTTP status 413 of a proxy the code that gRPC has for a request that is too large. The broker never has the whole
   * request.
   */
  private Failure withContentTooLarge() {
    boolean isOfProxy = code == Status.Code.UNKNOWN && reason.isEmpty() && message.startsWith("HTTP status code 413");
    // The further lines are about the body.
    return isOfProxy ? of(Status.Code.RESOURCE_EXHAUSTED, message.lines().findFirst().orElse(""), APPLIED_NO) : this;
  }

  /** Returns the text of the innermost cause, in one line. An outer text that repeats it, such as with the address, is better. */
  private static String causeText(Throwable cause) {
    String text = "";
    for (int depth = 0; cause != null && depth < MAX_CAUSES; depth++) {
      String message = cause.getMessage() == null ? "" : cause.getMessage().lines().findFirst().orElse("");
      if (text.isEmpty() || !text.contains(message)) {
        text = message.isEmpty() ? cause.getClass().getSimpleName() : message;
      }
      cause = cause.getCause();
    }
    return text;
  }

  private static long parsePushback(String text) {
    try {
      return Values.nanos(java.time.Duration.ofMillis(Long.parseLong(text)));
    } catch (NumberFormatException malformed) {
      return -1;
    }
  }

  /** Returns the code, the broker's reason and the message. */
  String text() {
    return code + (reason.isEmpty() ? "" : " (" + reason + ")") + ": " + message;
  }

  /** True if the broker asks to send the request again after some time. */
  boolean asksToWait() {
    return pushbackNanos != null && pushbackNanos >= 0;
  }

  /** True if the next call needs another broker, because the connection or the broker does not work. */
  boolean isOfConnection() {
    return code == Status.Code.UNAVAILABLE || reason.isEmpty() && mayPass();
  }

  /** True if something between this program and the broker has answered. */
  boolean isOfTheWay() {
    boolean isAnswer = code == Status.Code.UNKNOWN || code == Status.Code.INTERNAL || code == Status.Code.CANCELLED;
    return isAnswer && reason.isEmpty() && pushbackNanos == null;
  }

  /** True if there was no answer in time. */
  boolean isSilent() {
    return code == Status.Code.DEADLINE_EXCEEDED && reason.isEmpty();
  }

  /** True if the same request can succeed later. */
  boolean mayPass() {
    // The broker sends a pushback of -1 with its own DEADLINE_EXCEEDED. The next attempt has a deadline of its own.
    if (pushbackNanos != null && code != Status.Code.DEADLINE_EXCEEDED) {
      return asksToWait();
    }
    return switch (code) {
      case UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED -> true;
      // Without a reason of the broker the error is the connection's.
      case UNKNOWN, INTERNAL -> reason.isEmpty();
      // Without a reason of the broker it is this program's own limit, and the next response is as large.
      case RESOURCE_EXHAUSTED -> reason.equals("OVERLOADED");
      default -> false;
    };
  }
}
