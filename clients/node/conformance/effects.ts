/** The effects file: lines of effect, key and fencing token. */

import { execFile } from "node:child_process";
import { promisify } from "node:util";

import type { Item } from "../src/index.js";
import { now } from "../src/clock.js";
import { say } from "./output.js";

const run = promisify(execFile);

// Node cannot lock files, so that flock(1) runs this script with the lock on the file.
const APPEND = `awk -v effect="$2" -v key="$3" -v fence="$4" \\
  '$1 "" == effect "" && $2 "" == key "" && $3 > fence + 0 { exit 1 }' "$1" && echo "$2 $3 $4" >>"$1"`;

export class Effects {
  constructor(private readonly path: string | null) {}

  /** Appends a line, unless one with the same effect and key and a greater fencing token exists. */
  async append(effect: string, item: Item): Promise<void> {
    if (this.path === null) return;
    const fence = String(item.fencingToken);
    try {
      await run("flock", [this.path, "sh", "-c", APPEND, "sh", this.path, effect, item.key, fence]);
    } catch {
      say({ ev: "effect_refused", at_ms: now(), key: item.key, attempt: item.attempt, fence: Number(fence) });
    }
  }
}
