/** The async contexts of the program's functions. */

import { AsyncResource } from "node:async_hooks";

/**
 * Calls a function of the program in an async context of its own. Otherwise a value that it sets by `AsyncLocalStorage.enterWith`
 * would be seen by the calls that the worker makes later.
 */
export function inOwnContext<T>(call: () => T): T {
  return new AsyncResource("LeaseBroker").runInAsyncScope(call);
}
