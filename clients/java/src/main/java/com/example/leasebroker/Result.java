package com.example.leasebroker;

import java.util.List;
import java.util.Map;

/**
 * The values that a handler adds to the completion of its item.
 *
 * @param columns values that are written to the item's own row. The queue's setting `writable` lists the columns that can be
 *     written
 * @param followUps rows that are added together with the completion, or not at all
 */
public record Result(Map<String, ?> columns, List<FollowUp> followUps) {
  /** A result that writes columns. */
  public static Result ofColumns(Map<String, ?> columns) {
    return new Result(columns, List.of());
  }

  /** A result that adds rows. */
  public static Result ofFollowUps(FollowUp... followUps) {
    return new Result(Map.of(), List.of(followUps));
  }
}
