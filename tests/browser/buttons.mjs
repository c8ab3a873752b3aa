// Each button and each form does what it says.
import assert from "node:assert/strict";
import { items, serving } from "./queues.mjs";

// Answers the question of a change, and waits until its operation is done. Returns the row of the operation.
async function confirm(page, button, reason) {
  await page.getByLabel("Reason, for your colleagues").fill(reason);
  await page.getByRole("button", { name: button }).click();
  const row = page.getByRole("row", { name: reason });
  await row.getByText("done", { exact: true }).waitFor();
  return row;
}

const count = async (broker, state) => (await broker.call("list", "orders", "--state", state, "--limit", "100000")).length;

export default {
  async pause_and_resume(test) {
    const broker = await serving(test);
    for (const [path, mode, shown] of [["/", "claims", "paused"], ["/queues/orders", "both", "paused for claims and new items"]]) {
      const page = await test.open(broker.url + path);
      const menu = page.locator("details.menu").filter({ hasText: "Pause orders" });
      await menu.locator("summary").click();
      await menu.getByLabel("Reason").fill("at night");
      await menu.getByLabel("What is refused").selectOption(mode);
      await menu.getByRole("button", { name: "Pause orders" }).click();
      await page.getByText(shown, { exact: true }).waitFor();
      await page.getByText("at night").waitFor();
      assert.deepEqual(await broker.call("claim", "orders", "--limit", "1"), []);
      await page.goto(broker.url + path);
      await page.getByRole("button", { name: "Resume orders" }).click();
      await page.locator("#queue-orders summary").waitFor();
    }
  },

  async dead_items_of_an_error_are_redriven(test) {
    const broker = await serving(test);
    const page = await test.open(`${broker.url}/queues/orders`);
    await page.getByRole("button", { name: "Redrive … items with no stock" }).click();
    await page.getByText("3 items of orders").waitFor();
    await confirm(page, "Redrive 3", "stock is back");
    assert.equal(await count(broker, "dead"), 1);
  },

  async marked_items_are_redriven(test) {
    const broker = await serving(test);
    const page = await test.open(`${broker.url}/queues/orders/items?state=dead`);
    for (const key of [2, 4]) await page.getByLabel(`Mark ${key}`).check();
    await page.locator("#marked").getByRole("button", { name: "Redrive …" }).click();
    await page.getByText("2 items of orders").waitFor();
    await confirm(page, "Redrive 2", "these two");
    const left = await broker.call("list", "orders", "--state", "dead");
    assert.deepEqual(left.map((item) => item.key).sort(), ["1", "3"]);
  },

  async all_items_that_fit_are_deleted(test) {
    const broker = await serving(test);
    const page = await test.open(`${broker.url}/queues/orders/items?state=dead`);
    await page.getByLabel("Error contains").fill("stock");
    await page.getByLabel("Column").selectOption("number");
    await page.getByLabel("equals").fill("2");
    await page.getByRole("button", { name: "Filter" }).click();
    await page.getByText("1 item shown").waitFor();
    await page.getByText("All that fit:").locator("..").getByRole("button", { name: "Delete …" }).click();
    await confirm(page, "Delete 1", "a test");
    assert.equal(await count(broker, "dead"), 3);
  },

  async filter_keeps_an_error_with_line_ends(test) {
    const broker = await serving(test);
    const error = "Traceback:\n  line 3\nKeyError: 'price'";
    await broker.addDead("orders", { payload: "order", number: 7 }, error);
    const page = await test.open(`${broker.url}/queues/orders`);
    await page.getByRole("link", { name: "KeyError" }).click();
    await page.getByText("1 item shown").waitFor();
    await page.getByLabel("Attempts, at least").fill("1");
    await page.getByRole("button", { name: "Filter" }).click();
    await page.waitForURL("**attempts=1**");
    await page.getByText("1 item shown").waitFor();
    await page.getByText("All that fit:").locator("..").getByRole("button", { name: "Redrive …" }).click();
    await page.getByText("KeyError").waitFor();
    await page.getByRole("link", { name: "Back" }).click();
    await page.getByRole("link", { name: "Remove Error contains" }).click();
    await page.getByText("5 items shown").waitFor();
    await page.getByLabel("Error contains").waitFor();
  },

  async leases_are_taken_away(test) {
    const broker = await serving(test);
    const page = await test.open(`${broker.url}/queues/orders/items?state=leased`);
    await page.getByRole("button", { name: "Take the leases away …" }).last().click();
    await confirm(page, "Take away 1", "the worker hangs");
    assert.equal(await count(broker, "leased"), 0);
  },

  async one_item_is_changed_on_its_page(test) {
    const broker = await serving(test);
    const page = await test.open(`${broker.url}/queues/orders/items?state=dead`);
    await page.getByRole("link", { name: "3", exact: true }).click();
    await page.getByText("Why is it not being claimed?").waitFor();
    await page.getByRole("button", { name: "Redrive …" }).click();
    await confirm(page, "Redrive 1", "only this one");
    await page.goto(`${broker.url}/queues/orders/item?key=3`);
    await page.getByText("ready", { exact: true }).waitFor();
    const leased = await broker.call("list", "orders", "--state", "leased");
    await page.goto(`${broker.url}/queues/orders/item?key=${leased[0].key}`);
    await page.getByRole("button", { name: "Take the lease away …" }).click();
    await page.getByRole("heading", { name: "Take this lease away from worker-1?" }).waitFor();
    await page.getByLabel("Reason").fill("this too");
    await page.getByRole("button", { name: "Take away 1" }).click();
    await page.getByText("ready", { exact: true }).waitFor();
    await page.getByText("this too").waitFor();
    assert.equal(await count(broker, "leased"), 0);
  },

  async marked_leases_are_taken_away(test) {
    const broker = await serving(test);
    await broker.claim("orders", 1, "--worker", "worker-2");
    const page = await test.open(`${broker.url}/queues/orders/items?state=leased`);
    for (const box of await page.getByLabel(/^Mark /).all()) await box.check();
    await page.locator("#marked").getByRole("button", { name: "Take the leases away …" }).click();
    await page.getByText(/of worker-1, key .* of worker-2/).waitFor();
    await page.getByRole("button", { name: "Take away 2" }).click();
    await page.getByText("No item fits").waitFor();
    assert.equal(await count(broker, "leased"), 0);
  },

  async operation_is_stopped(test) {
    const broker = await serving(test);
    await broker.enqueue("orders", items(2_000), "--batch", "1000");
    await broker.claim("orders", 1_000);
    const page = await test.open(`${broker.url}/queues/orders/items?state=leased`);
    await page.getByRole("button", { name: "Take the leases away …" }).last().click();
    await page.getByLabel("Items per second").fill("1");
    await page.getByRole("button", { name: /^Take away 1,0/ }).click();
    await page.getByRole("button", { name: "Stop cancel leases of orders" }).click();
    await page.getByText("cancelled", { exact: true }).waitFor();
    assert.ok((await count(broker, "leased")) > 900);
  },

  async change_that_is_not_possible_says_why(test) {
    const broker = await serving(test);
    const page = await test.open(`${broker.url}/queues/orders/items?state=dead`, { expectErrors: true });
    await page.locator("#marked").getByRole("button", { name: "Redrive …" }).click();
    await page.getByText("no item is marked").waitFor();
    await page.goto(`${broker.url}/queues/orders/items?state=dead&since=yesterday`);
    await page.getByText("since: \"yesterday\" is neither a time").waitFor();
  },

  async broker_is_stopped(test) {
    const broker = await serving(test);
    const page = await test.open(`${broker.url}/brokers`, { expectErrors: true });
    await page.locator("summary", { hasText: "Stop" }).click();
    const [answer] = await Promise.all([
      page.waitForResponse((answer) => answer.request().method() === "POST"),
      page.getByRole("button", { name: `Stop this broker ${broker.address}` }).click(),
    ]);
    assert.equal(answer.status(), 303);
    const [code] = await broker.exited;
    assert.equal(code, 0);
  },
};
