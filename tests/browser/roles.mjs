// The login, and the buttons that each role sees.
import assert from "node:assert/strict";
import { QUEUES, serving } from "./queues.mjs";

// Starts a broker with identities. Returns it with their tokens.
async function guarded(test) {
  const broker = await serving(test);
  await broker.kill();
  const tokens = {};
  for (const role of ["observer", "operator", "admin"]) {
    tokens[role] = (await broker.command("token", "new", role, "--tokens-file", "tokens")).trim();
  }
  broker.more = "[auth]\ntokens_file = 'tokens'\n" + Object.keys(tokens)
    .map((role) => `[[auth.identities]]\nname = '${role}'\ntoken = '${role}'\nroles = { ${role} = ['*'] }\n`).join("");
  broker.toml = QUEUES;
  await broker.serve("127.0.0.1:0", "127.0.0.1:0");
  return { broker, tokens };
}

async function logIn(test, broker, token, options) {
  const page = await test.open(broker.url, options);
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("button", { name: "Log out" }).waitFor();
  return page;
}

// Returns the texts of the buttons that change something.
async function buttons(page) {
  const all = await page.locator("main button, main summary").allTextContents();
  return [...new Set(all.filter((text) => !["Filter", "Find", "Settings in effect"].includes(text)))];
}

export default {
  async wrong_token_is_refused_and_logout_ends_the_session(test) {
    const { broker, tokens } = await guarded(test);
    const page = await test.open(`${broker.url}/queues/orders`, { expectErrors: true });
    await page.getByLabel("Token").fill("wrong");
    await page.keyboard.press("Enter");
    await page.getByRole("alert").getByText("The token is not valid.").waitFor();
    await page.getByLabel("Token").fill(tokens.observer);
    await page.keyboard.press("Enter");
    await page.getByText("2 queues").waitFor();
    await page.getByRole("button", { name: "Log out" }).click();
    await page.getByLabel("Token").waitFor();
    await page.goto(broker.url);
    await page.getByLabel("Token").waitFor();
  },

  async observer_sees_no_buttons(test) {
    const { broker, tokens } = await guarded(test);
    const page = await logIn(test, broker, tokens.observer);
    for (const path of ["/", "/queues/orders", "/queues/orders/items?state=dead", "/queues/orders/item?key=1", "/operations", "/brokers"]) {
      await page.goto(broker.url + path);
      assert.deepEqual(await buttons(page), [], path);
    }
    await page.goto(broker.url);
    await page.locator("#pulse", { hasText: /^live$/ }).waitFor();
    assert.deepEqual(await buttons(page), [], "after an event");
  },

  async operator_redrives_but_deletes_nothing(test) {
    const { broker, tokens } = await guarded(test);
    const page = await logIn(test, broker, tokens.operator);
    await page.goto(`${broker.url}/queues/orders/items?state=dead`);
    assert.deepEqual(await buttons(page), ["Redrive …"]);
    await page.goto(`${broker.url}/brokers`);
    assert.deepEqual(await buttons(page), []);
    await page.goto(broker.url);
    await page.locator("#queue-orders summary").click();
    await page.getByRole("button", { name: "Pause orders" }).click();
    await page.getByText("by operator").waitFor();
  },

  async admin_sees_all_buttons(test) {
    const { broker, tokens } = await guarded(test);
    const page = await logIn(test, broker, tokens.admin);
    await page.goto(`${broker.url}/queues/orders/items?state=dead`);
    assert.deepEqual(await buttons(page), ["Redrive …", "Delete …"]);
    await page.goto(`${broker.url}/brokers`);
    assert.ok((await buttons(page)).includes(`Stop this broker ${broker.address}`));
  },

  async page_leads_to_the_login_when_its_session_has_ended(test) {
    const { broker, tokens } = await guarded(test);
    const page = await logIn(test, broker, tokens.observer, { expectErrors: true });
    await page.locator("#pulse", { hasText: /^live$/ }).waitFor();
    const other = await page.context().newPage();
    await other.goto(broker.url);
    await other.getByRole("button", { name: "Log out" }).click();
    await other.getByLabel("Token").waitFor();
    await page.bringToFront();
    await page.getByLabel("Token").waitFor();
  },
};
