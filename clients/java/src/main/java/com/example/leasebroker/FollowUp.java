package com.example.leasebroker;

import com.example.leasebroker.v1.NewItem;
import java.time.Duration;
import java.util.Map;

/**
 * A row that is added to a queue in the transaction that completes an item.
 *
 * @param queue the name of the queue
 * @param columns the values of the new row's columns. A column that is left out gets the table's default
 * @param delay the time until the row is ready, up to 366 days. Null: it is ready immediately
 * @param traceParent the W3C trace context of the row. Empty: that of the completed lease
 */
public record FollowUp(String queue, Map<String, ?> columns, Duration delay, String traceParent) {
  /** A row that is ready immediately. */
  public FollowUp(String queue, Map<String, ?> columns) {
    this(queue, columns, null, "");
  }

  com.example.leasebroker.v1.FollowUp toProto() {
    return com.example.leasebroker.v1.FollowUp.newBuilder().setQueue(queue).setItem(newItem(columns, delay, traceParent)).build();
  }

  static NewItem newItem(Map<String, ?> columns, Duration delay, String traceParent) {
    NewItem.Builder item = NewItem.newBuilder().putAllColumns(Values.toProto(columns)).setTraceParent(traceParent);
    if (delay != null) {
      item.setDelay(Values.duration(delay));
    }
    return item.build();
  }
}
