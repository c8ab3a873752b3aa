package com.example.leasebroker;

import io.grpc.Status;
import java.util.List;

/** A call that failed and that was not, or no longer, sent again. */
public final class LeaseBrokerException extends RuntimeException {
  private static final long serialVersionUID = 1;
  private final String rpc;
  private final Status.Code code;
  private final String reason;
  private final String description;
  private final transient List<String> fields;
  private final String applied;
  private final boolean temporary;

  LeaseBrokerException(String rpc, Failure failure) {
    super(rpc + ": " + failure.text());
    this.rpc = rpc;
    this.code = failure.code();
    this.reason = failure.reason();
    this.description = failure.message();
    this.fields = failure.fields();
    this.applied = failure.applied();
    this.temporary = failure.mayPass();
  }

  /** Returns the name of the method, such as "ClaimBatch". */
  public String rpc() {
    return rpc;
  }

  /** Returns the status of the last attempt. */
  public Status.Code code() {
    return code;
  }

  /** Returns the broker's reason, such as "QUEUE_NOT_FOUND". Empty: the error does not come from the broker. */
  public String reason() {
    return reason;
  }

  /** Returns the text of the status. */
  public String description() {
    return description;
  }

  /** Returns the paths of the request's fields that the broker refused. */
  public List<String> fields() {
    return fields;
  }

  /** Returns "no" if the call has changed nothing and will change nothing, and "unknown" if it may have been applied. */
  public String applied() {
    return applied;
  }

  /** True if the same call can succeed later: only the time for retries is over. */
  public boolean temporary() {
    return temporary;
  }

  /** True if the broker refused the request for what it contains. */
  boolean refusesRequest() {
    return !temporary && (code == Status.Code.INVALID_ARGUMENT || code == Status.Code.RESOURCE_EXHAUSTED);
  }

  /** True if the broker refused the claim in `next`, and so the whole request. */
  boolean refusesNext() {
    return refusesRequest() && fields.stream().anyMatch(field -> field.startsWith("next"));
  }

  /** True if the broker does not let this program make the call. */
  boolean refusesCaller() {
    return !temporary && (code == Status.Code.UNAUTHENTICATED || code == Status.Code.PERMISSION_DENIED);
  }
}
