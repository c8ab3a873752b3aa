// Live pages: changes appear, the keyboard's place is kept, and a broker that was killed is found again.
import assert from "node:assert/strict";
import { stat, writeFile } from "node:fs/promises";
import { Broker } from "./broker.mjs";
import { items, serving } from "./queues.mjs";

// Waits until the page has got this number of further events.
async function events(page, number) {
  await page.evaluate((number) => new Promise((resolve) => {
    let left = number;
    new MutationObserver(() => { left -= 1; if (left <= 0) resolve(); })
      .observe(document.querySelector("main"), { subtree: true, childList: true, characterData: true, attributes: true });
  }), number);
}

export default {
  async change_appears_without_a_reload(test) {
    const broker = await serving(test);
    const page = await test.open(broker.url);
    const row = page.locator("#queue-rainfall");
    await broker.enqueue("rainfall", items(12_345), "--batch", "1000");
    await row.getByRole("link", { name: /^(12,345|10,000\+)$/ }).waitFor();
    await broker.call("pause", "rainfall", "--reason", "by a colleague");
    await row.getByText("by a colleague").waitFor();
    await row.getByRole("button", { name: "Resume rainfall" }).waitFor();
  },

  async keyboard_alone_pauses_a_queue(test) {
    const broker = await serving(test);
    const page = await test.open(broker.url);
    const focused = () => page.evaluate(() => document.activeElement.textContent.trim() || document.activeElement.name);
    const tabTo = async (text) => {
      for (let presses = 0; presses < 60; presses += 1) {
        await page.keyboard.press("Tab");
        if ((await focused()) === text) return;
      }
      assert.fail(`no key leads to ${text}`);
    };
    await tabTo("Skip to the content");
    await page.keyboard.press("Enter");
    assert.equal(await page.evaluate(() => document.activeElement.id), "content");
    await tabTo("Pause orders");
    await page.keyboard.press("Enter");
    await tabTo("reason");
    await page.keyboard.type("first half");
    // Events come while the menu is open. They keep the menu, the focus and the text.
    await broker.enqueue("rainfall", items(7));
    await page.locator("#queue-rainfall").getByRole("link", { name: "7", exact: true }).waitFor();
    await page.keyboard.type(", second half");
    await tabTo("Pause orders");
    await page.keyboard.press("Enter");
    await page.getByText("first half, second half").waitFor();
  },

  async open_menu_keeps_its_button_while_the_page_changes(test) {
    const broker = await serving(test);
    const page = await test.open(`${broker.url}/brokers`);
    await page.locator("summary", { hasText: "Stop" }).click();
    const button = await page.getByRole("button", { name: "Stop this broker" }).elementHandle();
    await button.focus();
    // The time at which a broker was last seen changes with each event.
    await events(page, 5);
    assert.ok(await button.evaluate((button) => button.isConnected && button === document.activeElement));
  },

  async focus_stays_on_a_link_of_a_row(test) {
    const broker = await serving(test);
    const page = await test.open(`${broker.url}/queues/orders`);
    await page.getByRole("link", { name: "no stock" }).focus();
    await broker.enqueue("orders", items(5));
    await page.getByRole("link", { name: "6 ready" }).waitFor();
    await events(page, 1);
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "no stock");
  },

  async focus_never_passes_to_another_group(test) {
    const broker = await Broker.start('[queues.orders]\nmanaged_columns = { customer = "text" }\ngroup = "customer"\n');
    test.atEnd(() => broker.end());
    for (const customer of ["alpha", "bravo", "charlie"]) await broker.call("groups", "pause", "orders", customer);
    const page = await test.open(`${broker.url}/queues/orders`);
    await page.locator("#pulse", { hasText: /^live$/ }).waitFor();
    const bravo = await page.getByRole("button", { name: "Resume bravo" }).elementHandle();
    await bravo.focus();
    await broker.call("groups", "resume", "orders", "alpha");
    await page.getByRole("button", { name: "Resume alpha" }).waitFor({ state: "detached" });
    assert.ok(await bravo.evaluate((button) => button === document.activeElement && button.textContent === "Resume bravo"));
    await broker.call("groups", "resume", "orders", "bravo");
    await page.getByRole("button", { name: "Resume bravo" }).waitFor({ state: "detached" });
    assert.equal(await page.evaluate(() => document.activeElement.tagName), "BODY");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Resume charlie" }).waitFor();
  },

  async rows_keep_their_places_while_one_has_the_focus(test) {
    const broker = await serving(test);
    const page = await test.open(`${broker.url}/?sort=ready`);
    const first = page.locator("tbody th").first();
    assert.equal(await first.textContent(), "orders");
    await page.locator("#pulse", { hasText: /^live$/ }).waitFor();
    await page.locator("#queue-rainfall summary").click();
    const reason = page.locator("#queue-rainfall input[name=reason]");
    await reason.pressSequentially("first half");
    await broker.enqueue("rainfall", items(7));
    await page.locator("#queue-rainfall").getByRole("link", { name: "7", exact: true }).waitFor();
    assert.equal(await first.textContent(), "orders");
    await page.keyboard.type(", second half");
    assert.equal(await reason.inputValue(), "first half, second half");
    // Without an open menu and a focus the largest value comes first again.
    await page.locator("#queue-rainfall summary").click();
    await page.evaluate(() => document.activeElement.blur());
    await page.locator("tbody tr:first-child#queue-rainfall").waitFor();
  },

  async silence_is_shown_with_the_time_of_the_content(test) {
    const broker = await serving(test);
    const page = await test.open(broker.url);
    await page.locator("#pulse", { hasText: /^live$/ }).waitFor();
    broker.child.kill("SIGSTOP");
    const stopped = await page.evaluate(() => new Date().toTimeString().slice(0, 8));
    const note = page.getByRole("status").getByText("No news. The page shows what was known at");
    await note.waitFor();
    const [known] = (await note.textContent()).match(/\d\d:\d\d:\d\d/);
    assert.ok(known <= stopped, `${known} is not after ${stopped}`);
    broker.child.kill("SIGCONT");
    await page.locator("#pulse", { hasText: /^live$/ }).waitFor();
  },

  async page_that_comes_back_is_live_from_its_first_event_on(test) {
    const broker = await serving(test);
    const page = await test.open(broker.url);
    const pulse = page.locator("#pulse");
    const hide = (isHidden) => page.evaluate((isHidden) => {
      Object.defineProperty(document, "hidden", { configurable: true, get: () => isHidden });
      document.dispatchEvent(new Event("visibilitychange"));
    }, isHidden);
    await page.locator("#pulse", { hasText: /^live$/ }).waitFor();
    await hide(true);
    assert.equal(await pulse.textContent(), "");
    broker.child.kill("SIGSTOP");
    await hide(false);
    assert.equal(await pulse.textContent(), "");
    broker.child.kill("SIGCONT");
    await page.locator("#pulse", { hasText: /^live$/ }).waitFor();
  },

  async lost_database_is_shown_above_the_last_content(test) {
    const broker = await serving(test);
    const page = await test.open(broker.url);
    await page.locator("#pulse", { hasText: /^live$/ }).waitFor();
    const { size } = await stat(broker.path("store.db"));
    await writeFile(broker.path("store.db"), Buffer.alloc(size, 7));
    await writeFile(broker.path("store.db-wal"), "");
    await page.getByRole("status").getByText("Not refreshed: the store is unavailable: the database cannot be used").waitFor();
    await page.locator("#pulse", { hasText: "not live" }).waitFor();
    await page.locator("#queue-orders").getByRole("link", { name: "4", exact: true }).waitFor();
  },

  async broker_is_killed_and_restarted_under_the_page(test) {
    const broker = await serving(test);
    const page = await test.open(broker.url, { expectErrors: true });
    await page.locator("#pulse", { hasText: /^live$/ }).waitFor();
    await broker.kill();
    await page.getByRole("status").getByText("The broker does not answer. Trying again.").waitFor();
    await page.locator("#pulse", { hasText: "not live" }).waitFor();
    await page.locator("#queue-orders").waitFor();
    await broker.serve(broker.address, broker.admin);
    await page.locator("#pulse", { hasText: /^live$/ }).waitFor();
    assert.equal(await page.getByRole("status").textContent(), "");
    // The forms of the page belong to the new process.
    await page.locator("#queue-orders summary").click();
    await page.getByRole("button", { name: "Pause orders" }).click();
    await page.getByRole("button", { name: "Resume orders" }).waitFor();
  },
};
