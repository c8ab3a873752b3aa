// Writes the picture of the README: `node tests/browser/picture.mjs docs/dashboard.png`. Starts the demo, waits until its charts cover
// two minutes, and takes a screenshot of the page of its queue. pngquant reduces the colours, so that the file is small.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { launch } from "./chromium.mjs";

const [, , file] = process.argv;
const flags = ["demo", "--events", "500", "--workers", "2", "--kill", "0", "--keep"];
const demo = spawn(process.env.LEASE_BROKER ?? "target/debug/lease-broker", flags, { stdio: ["ignore", "pipe", "inherit"] });
const ended = once(demo, "exit");
let url;
for await (const line of createInterface({ input: demo.stdout })) {
  [, url] = line.match(/^dashboard: (.*)$/) ?? [];
  if (url) break;
}
demo.stdout.resume();
const browser = await launch();
try {
  const page = await browser.newPage({ viewport: { width: 960, height: 430 }, colorScheme: "light" });
  await page.goto(`${url}/queues/rainfall`);
  // A broker adds a sample every 5 s, and a chart has room for 24.
  const points = () => page.locator("polyline.three").first().getAttribute("points").catch(() => "");
  while (((await points()) ?? "").trim().split(" ").length < 24) await page.waitForTimeout(1_000);
  // A moment at which workers hold leases.
  await page.locator(".counts a.leased").waitFor({ timeout: 60_000 });
  const picture = await page.screenshot();
  writeFileSync(file, execFileSync("pngquant", ["--strip", "--speed", "1", "--nofs", "32", "-"], { input: picture }));
} finally {
  await browser.close();
  demo.kill("SIGTERM");
  await ended;
}
