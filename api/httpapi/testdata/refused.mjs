// Sends the requests of standard input, a JSON list, with fetch, and prints what the client saw of each.
import { readFileSync } from "node:fs";

const seen = [];
for (const ask of JSON.parse(readFileSync(0, "utf8"))) {
  try {
    const r = await fetch(ask.url, { method: ask.method, headers: ask.headers, body: new Uint8Array(ask.length) });
    seen.push({ status: r.status, body: await r.text() });
  } catch (e) {
    seen.push({ status: 0, body: String(e.cause ?? e) });
  }
}
process.stdout.write(JSON.stringify(seen));
