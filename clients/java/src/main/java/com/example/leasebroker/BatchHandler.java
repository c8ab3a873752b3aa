package com.example.leasebroker;

import java.util.List;
import java.util.Map;

/** Works on up to a batch of items. */
@FunctionalInterface
public interface BatchHandler {
  /**
   * Works on items. If it returns, all are completed, with the results of the map, which can be null. A {@link BatchException}
   * fails some items. A key that is not one of the items fails all of them. Any other exception ends all items as it would end one.
   */
  Map<Item, Result> handle(List<Item> items, Context context) throws Exception;
}
