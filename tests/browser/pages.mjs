// Each page: its access for all, its width, its colours, markup in rows, and its use without JavaScript.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { require } from "./chromium.mjs";
import { MARKUP, QUEUES, items, queue, serving } from "./queues.mjs";
import { Broker } from "./broker.mjs";

const LONG = "transfer-to-the-warehouse-of-the-northern-region-".repeat(2) + "end";
const TENANTS = `
[queues.tenants]
managed_columns = { customer = "text" }
group = "customer"
`;
const axe = await readFile(require.resolve("axe-core/axe.min.js"), "utf8");

// Returns the paths of all pages.
const paths = () => [
  "/", "/?find=or&sort=dead", "/queues/orders", "/queues/rainfall", `/queues/${LONG}`,
  ...["ready", "leased", "delayed", "completed", "dead"].map((state) => `/queues/orders/items?state=${state}`),
  "/queues/rainfall/items?state=dead", "/queues/orders/items?state=dead&error=none&attempts=7",
  "/queues/orders/items?state=dead&error=no%0Astock", "/queues/orders/item?key=1", "/queues/orders/item?key=6", "/operations", "/brokers", "/queues/none",
  "/queues/tenants", "/queues/tenants/groups", "/queues/tenants/groups?state=halted",
];

// Checks a page by axe-core. The script is run by the browser's debugger, because the policy of the page allows no other script. The
// colours are checked in the dark too.
async function check(page, path) {
  await page.evaluate(axe);
  const run = (runOnly) => page.evaluate((runOnly) => globalThis.axe.run(document, { resultTypes: ["violations"], runOnly }), runOnly);
  for (const [colorScheme, rules] of [["light", undefined], ["dark", ["color-contrast", "link-in-text-block"]]]) {
    await page.emulateMedia({ colorScheme });
    const { violations } = await run(rules && { type: "rule", values: rules });
    const found = violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map((node) => node.html).join(" ")}`);
    assert.deepEqual(found, [], `${colorScheme} ${path}`);
  }
}

async function started(test) {
  const broker = await serving(test, QUEUES + queue(LONG) + TENANTS);
  for (const customer of ["ada", LONG]) await broker.call("enqueue", "tenants", "--set", `customer=${customer}`);
  await broker.call("groups", "pause", "tenants", LONG, "--reason", "at night ".repeat(30));
  await broker.call("pause", "rainfall", "--reason", "at night ".repeat(30));
  await broker.call("redrive", "orders", "--limit", "1", "--yes", "--wait");
  return broker;
}

async function eachPage(test, options, look) {
  const broker = await started(test);
  const page = await test.open(broker.url, { expectErrors: true, ...options });
  for (const path of paths()) {
    await page.goto(broker.url + path);
    await look(page, path);
  }
  await page.goto(`${broker.url}/queues/orders/items?state=dead`);
  await page.getByRole("button", { name: "Redrive …" }).last().click();
  await page.getByRole("heading", { name: "Make these dead items ready again?" }).waitFor();
  await look(page, "the question");
  await page.goto(`${broker.url}/queues/orders/items?state=leased`);
  await page.getByLabel(/^Mark /).first().check();
  await page.getByRole("button", { name: "Take the leases away …" }).first().click();
  await page.getByRole("heading", { name: "Take this lease away from worker-1?" }).waitFor();
  await look(page, "the question about a lease");
  await page.goto(broker.url);
  await page.locator("summary", { hasText: "Pause" }).first().click();
  await look(page, "an open menu");
}

export default {
  async axe_finds_no_violation_in_light_and_dark(test) {
    await eachPage(test, {}, check);
  },

  async narrow_page_has_no_horizontal_scroll_bar(test) {
    await eachPage(test, { viewport: { width: 320, height: 640 } }, async (page, path) => {
      const width = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(width <= 320, `${path} is ${width} pixels wide`);
    });
  },

  async wide_page_has_no_horizontal_scroll_bar(test) {
    await eachPage(test, { viewport: { width: 1600, height: 900 } }, async (page, path) => {
      const width = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(width <= 1600, `${path} is ${width} pixels wide`);
      for (const part of await page.locator(".scroll").all()) {
        const [all, seen] = await part.evaluate((element) => [element.scrollWidth, element.clientWidth]);
        assert.ok(all <= seen, `a table of ${path} has ${all} pixels in ${seen}`);
      }
    });
  },

  async colours_follow_the_system(test) {
    const broker = await serving(test);
    const ground = async (colorScheme) => {
      const page = await test.open(broker.url, { colorScheme });
      const colour = await page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
      return Math.max(...colour.match(/\d+/g).map(Number));
    };
    assert.ok((await ground("light")) > 200);
    assert.ok((await ground("dark")) < 60);
  },

  async markup_of_rows_is_text(test) {
    const broker = await serving(test);
    const page = await test.open(broker.url);
    for (const path of ["/queues/orders", "/queues/orders/items?state=dead", "/queues/orders/item?key=1"]) {
      await page.goto(broker.url + path);
      await page.getByText(MARKUP).first().waitFor();
      assert.equal(await page.locator("main img, main script").count(), 0, path);
    }
    // The events of the page are drawn by the same rules.
    await page.goto(`${broker.url}/queues/orders`);
    await page.locator("#pulse", { hasText: /^live$/ }).waitFor();
    assert.equal(await page.locator("main img, main script").count(), 0);
  },

  async ten_thousand_leases_are_shown_in_pages_of_hundred(test) {
    const broker = await Broker.start(QUEUES);
    test.atEnd(() => broker.end());
    await broker.enqueue("orders", items(10_000), "--batch", "1000");
    for (let part = 0; part < 10; part += 1) await broker.claim("orders", 1_000, "--worker", `worker-${part}`);
    const page = await test.open(`${broker.url}/queues/orders`);
    await page.getByRole("link", { name: "10,000 leased" }).click();
    await page.getByText("100 items shown, 100 rows looked at. More may follow.").waitFor();
    assert.equal(await page.locator("tbody tr").count(), 100);
    const first = await page.locator("tbody th").first().textContent();
    await page.getByRole("link", { name: "Next page" }).click();
    await page.getByRole("link", { name: "First page" }).waitFor();
    assert.equal(await page.locator("tbody tr").count(), 100);
    assert.notEqual(await page.locator("tbody th").first().textContent(), first);
    // A change concerns all of them, and says so before.
    await page.getByRole("button", { name: "Take the leases away …" }).last().click();
    await page.getByRole("button", { name: /^Take away (10,000|1,000\+)/ }).waitFor();
  },

  async hundreds_of_queues_are_found_and_sorted(test) {
    const names = Array.from({ length: 300 }, (_, number) => `queue-${String(number).padStart(3, "0")}`);
    const broker = await Broker.start(names.map((name) => queue(name)).join(""));
    test.atEnd(() => broker.end());
    await broker.enqueue("queue-207", items(7));
    const page = await test.open(broker.url);
    await page.getByText("300 queues").waitFor();
    await page.getByRole("columnheader", { name: "ready", exact: true }).first().getByRole("link").click();
    await page.waitForURL("**/?sort=ready");
    assert.equal(await page.locator("tbody th").first().textContent(), "queue-207");
    await page.locator("#pulse", { hasText: /^live$/ }).waitFor();
    assert.equal(await page.locator("tbody th").first().textContent(), "queue-207", "events keep the order");
    await page.getByRole("searchbox").fill("e-29");
    await page.getByRole("button", { name: "Find" }).click();
    await page.getByText("10 shown").waitFor();
    assert.equal(await page.locator("tbody tr").count(), 10);
  },

  async no_queue_is_no_error(test) {
    const broker = await serving(test);
    const page = await test.open(`${broker.url}/?find=nothing`);
    await page.getByText("No queue has this in its name.").waitFor();
  },

  async pages_work_without_javascript(test) {
    const broker = await serving(test);
    const page = await test.open(broker.url, { javaScriptEnabled: false });
    await page.locator("#queue-orders summary").click();
    await page.locator("#queue-orders").getByLabel("Reason").fill("by hand");
    await page.locator("#queue-orders").getByRole("button", { name: "Pause orders" }).click();
    await page.getByText("by hand").waitFor();
    await page.getByRole("button", { name: "Resume orders" }).click();
    await page.getByText("2 queues").waitFor();
    assert.equal(await page.getByText("by hand").count(), 0);
  },
};
