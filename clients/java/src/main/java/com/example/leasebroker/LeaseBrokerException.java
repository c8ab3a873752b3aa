package com.example.leasebroker;

import io.grpc.Status;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A call that failed and that was not, or no longer, sent again. */
public final class LeaseBrokerException extends RuntimeException {
  private static final long serialVersionUID = 1;
  private static final Pattern INDEX = Pattern.compile("items\\[([0-9]{1,9})\\]");
  private final String rpc;
  private final Failure failure;
  private final boolean temporary;
  private final transient List<String> keys;

  LeaseBrokerException(String rpc, Failure failure) {
    this(rpc, failure, failure.mayPass(), List.of());
  }

  private LeaseBrokerException(String rpc, Failure failure, boolean temporary, List<String> keys) {
    super(rpc + ": " + failure.text());
    this.rpc = rpc;
    this.failure = failure;
    this.temporary = temporary;
    this.keys = keys;
  }

  /** Returns the exception of an enqueue whose earlier calls have added rows with these keys. */
  LeaseBrokerException afterRows(List<String> keys) {
    String message = shiftIndex(failure.message(), keys.size()) + "; the first " + keys.size() + " rows were added";
    List<String> shifted = fields().stream().map(field -> shiftIndex(field, keys.size())).toList();
    String partly = applied().equals(Failure.APPLIED_NO) ? Failure.APPLIED_PARTLY : Failure.APPLIED_UNKNOWN;
    // Not temporary: the same rows again would add the first ones twice.
    return new LeaseBrokerException(rpc, new Failure(code(), reason(), message, shifted, partly, null), false, List.copyOf(keys));
  }

  /** Adds the number of earlier rows to the index at the beginning of a field's path. */
  private static String shiftIndex(String text, int rows) {
    Matcher index = INDEX.matcher(text);
    return index.lookingAt() ? "items[" + (Integer.parseInt(index.group(1)) + rows) + "]" + text.substring(index.end()) : text;
  }

  /** Returns the name of the method, such as "ClaimBatch". */
  public String rpc() {
    return rpc;
  }

  /** Returns the status of the last attempt. */
  public Status.Code code() {
    return failure.code();
  }

  /** Returns the broker's reason, such as "QUEUE_NOT_FOUND". Empty: the error does not come from the broker. */
  public String reason() {
    return failure.reason();
  }

  /** Returns the text of the status. */
  public String description() {
    return failure.message();
  }

  /** Returns the paths of the request's fields that the broker refused. */
  public List<String> fields() {
    return failure.fields();
  }

  /**
   * Returns "no" if the call has changed nothing and will change nothing, and "unknown" if it may have been applied. "partly": an
   * enqueue has added the rows of {@link #keys}, and will not add the others.
   */
  public String applied() {
    return failure.applied();
  }

  /** True if the same call can succeed later: only the time for retries is over. */
  public boolean temporary() {
    return temporary;
  }

  /** Returns the keys of the first rows of an enqueue, which earlier calls have added. */
  public List<String> keys() {
    return keys;
  }

  /** True if the broker refused the request for what it contains. */
  boolean refusesRequest() {
    return !temporary && (code() == Status.Code.INVALID_ARGUMENT || code() == Status.Code.RESOURCE_EXHAUSTED);
  }

  /** True if the broker refused the claim in `next`, and so the whole request. */
  boolean refusesNext() {
    return refusesRequest() && fields().stream().anyMatch(field -> field.startsWith("next"));
  }

  /** True if the broker does not let this program make the call. */
  boolean refusesCaller() {
    return !temporary && (code() == Status.Code.UNAUTHENTICATED || code() == Status.Code.PERMISSION_DENIED);
  }
}
