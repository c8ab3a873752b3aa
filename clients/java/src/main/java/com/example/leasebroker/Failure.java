package com.example.leasebroker;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;
import java.util.ArrayList;
import java.util.List;

/**
 * The error of one attempt to send a request.
 *
 * @param reason the broker's reason. Empty: the error does not come from the broker
 * @param fields the paths of the refused fields
 * @param pushbackNanos the time that the broker asks to wait. Negative: the request must not be sent again. Null: not given
 */
record Failure(Status.Code code, String reason, String message, List<String> fields, Long pushbackNanos) {
  private static final Metadata.Key<String> PUSHBACK =
      Metadata.Key.of("grpc-retry-pushback-ms", Metadata.ASCII_STRING_MARSHALLER);

  static Failure of(Status.Code code, String message) {
    return new Failure(code, "", message, List.of(), null);
  }

  static Failure read(Throwable error) {
    Status status = Status.fromThrowable(error);
    String reason = "";
    Long pushback = null;
    List<String> fields = new ArrayList<>();
    com.google.rpc.Status details = StatusProto.fromThrowable(error);
    if (details != null) {
      try {
        for (Any detail : details.getDetailsList()) {
          if (detail.is(ErrorInfo.class)) {
            ErrorInfo info = detail.unpack(ErrorInfo.class);
            reason = info.getDomain().equals("leasebroker") ? info.getReason() : reason;
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
    if (status.getCause() != null && status.getCause().getMessage() != null) {
      message = message.isEmpty() ? status.getCause().getMessage() : message + ": " + status.getCause().getMessage();
    }
    return new Failure(status.getCode(), reason, message, List.copyOf(fields), pushback);
  }

  private static long parsePushback(String text) {
    try {
      return Long.parseLong(text) * 1_000_000;
    } catch (NumberFormatException malformed) {
      return -1;
    }
  }

  /** Returns the code, the broker's reason and the message. */
  String text() {
    return code + (reason.isEmpty() ? "" : " (" + reason + ")") + ": " + message;
  }

  /** True if the same request can succeed later. */
  boolean mayPass() {
    if (pushbackNanos != null && pushbackNanos < 0) {
      return false;
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
