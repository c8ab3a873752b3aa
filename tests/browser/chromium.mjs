// Starts Debian's Chromium.
import { createRequire } from "node:module";
import { resolve } from "node:path";

// The packages are not installed beside the tests, so that nothing is written there.
export const require = createRequire(resolve(process.env.LEASE_BROKER_NODE_MODULES ?? "target/ci/node_modules", "_"));

export async function launch() {
  const { chromium } = require("playwright-core");
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: [
      "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
      "--disable-component-update", "--disable-sync",
    ],
  });
}
