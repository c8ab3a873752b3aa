// The configuration of the queues that tests use, and items in every state.
import { Broker } from "./broker.mjs";

export const MARKUP = "<img src=x onerror=alert(1)><script>alert(2)</script>";

export const queue = (name, more = "") =>
  `[queues.${JSON.stringify(name)}]\nmanaged_columns = { payload = 'text', number = 'integer' }\nfilterable = ['number']\n${more}\n`;

export const QUEUES = queue("orders") + queue("rainfall");

// Returns items with numbers.
export const items = (count, payload = "order") => Array.from({ length: count }, (_, number) => ({ payload: `${payload} ${number}`, number }));

// Starts a broker, which ends with the test. The queue `orders` has an item in every state. The item 1 is dead, with markup in its
// columns and its error, and so are the items 2 to 4.
export async function serving({ atEnd }, toml = QUEUES) {
  const broker = await Broker.start(toml);
  atEnd(() => broker.end());
  await broker.addDead("orders", { payload: MARKUP, number: 0 }, MARKUP);
  for (const number of [1, 2, 3]) await broker.addDead("orders", { payload: "order", number }, "no stock");
  await broker.enqueue("orders", items(3));
  await broker.call("complete", "orders", ...(await broker.claim("orders", 1)));
  await broker.claim("orders", 1, "--worker", "worker-1");
  await broker.enqueue("orders", items(1, "later"), "--delay", "1h");
  return broker;
}
