// Runs the tests of the dashboard in Chromium: `node tests/browser/run.mjs [PART OF A NAME]`. Prints its results as cargo does.
import assert from "node:assert/strict";
import { launch } from "./chromium.mjs";
import buttons from "./buttons.mjs";
import live from "./live.mjs";
import pages from "./pages.mjs";
import roles from "./roles.mjs";

// The number of tests that run at the same time, and the time limit of each.
const AT_ONCE = 4;
const LIMIT = 90_000;

const tests = Object.entries({ buttons, live, pages, roles })
  .flatMap(([group, cases]) => Object.entries(cases).map(([name, run]) => [`browser::${group}::${name}`, run]))
  .filter(([name]) => name.includes(process.argv[2] ?? ""));
const browser = await launch();
let passed = 0;
const failures = [];

// Returns the address of a page and its text.
async function look(page) {
  const text = await page.locator("body").innerText({ timeout: 5_000 }).catch((error) => error.message);
  return `${page.url()}\n${text}`;
}

// Runs a test with a function that opens pages. A page must have no error, and show no dialog.
async function runOne([name, run]) {
  const problems = [];
  const contexts = [];
  const ends = [];
  const open = async (url, { expectErrors = false, ...options } = {}) => {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ignoreHTTPSErrors: true, ...options });
    context.setDefaultTimeout(30_000);
    contexts.push(context);
    const page = await context.newPage();
    page.on("dialog", (dialog) => { problems.push(`a dialog: ${dialog.message()}`); dialog.dismiss(); });
    page.on("pageerror", (error) => problems.push(`an error in the page: ${error}`));
    page.on("console", (message) => {
      if (message.type() === "error" && !expectErrors) problems.push(`an error in the console: ${message.text()}`);
    });
    await page.goto(url);
    return page;
  };
  // Does this at the end of the test. If the test has failed, the text that it returns is printed.
  const atEnd = (end) => ends.unshift(end);
  let timer;
  try {
    const limit = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error(`not within ${LIMIT / 1000} s`)), LIMIT); });
    await Promise.race([run({ open, atEnd }), limit]);
    assert.deepEqual(problems, []);
    passed += 1;
    console.log(`test ${name} ... ok`);
  } catch (error) {
    failures.push(name);
    console.log(`test ${name} ... FAILED\n${error.stack}\n${problems.join("\n")}`);
    for (const page of contexts.flatMap((context) => context.pages())) console.log(`the page ${await look(page)}`);
  } finally {
    clearTimeout(timer);
    for (const context of contexts) await context.close().catch(() => {});
    for (const end of ends) {
      const text = await end();
      if (text && failures.includes(name)) console.log(text);
    }
  }
}

const begin = Date.now();
console.log(`\nrunning ${tests.length} tests`);
const queue = [...tests];
await Promise.all(Array.from({ length: AT_ONCE }, async () => {
  while (queue.length > 0) await runOne(queue.shift());
}));
await browser.close();
const result = failures.length === 0 ? "ok" : "FAILED";
const seconds = ((Date.now() - begin) / 1000).toFixed(2);
console.log(`\ntest result: ${result}. ${passed} passed; ${failures.length} failed; 0 ignored; 0 measured; 0 filtered out; finished in ${seconds}s`);
process.exitCode = failures.length === 0 ? 0 : 1;
