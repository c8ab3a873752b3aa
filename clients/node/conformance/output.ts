/** The output of the program: JSON lines. */

import { writeSync } from "node:fs";

/** Writes a line. Returns when it has been written. */
export function say(line: Readonly<Record<string, unknown>>): void {
  const bytes = Buffer.from(JSON.stringify(line) + "\n");
  let written = 0;
  while (written < bytes.length) {
    try {
      written += writeSync(1, bytes, written);
    } catch (error) {
      // The pipe is full, and its other end has made it non-blocking.
      if ((error as NodeJS.ErrnoException).code !== "EAGAIN") throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
    }
  }
}
