// A mailbox that is a JSON file: each writer locks it, reads all of it, appends one message and writes all of it anew.
//
//   node file_mailbox.mjs <messages> <writers>
//
// Prints one JSON object: how many messages the file holds at the end, how many were given up because the lock could
// not be had, and the time from the first writer's start to the last one's end.
import { fork } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import lockfile from "proper-lockfile";

const INBOX = "inbox.json";
const PATIENCE = { retries: { retries: 10, minTimeout: 5, maxTimeout: 100 } };

async function send(number) {
  const unlock = await lockfile.lock(INBOX, PATIENCE);
  try {
    const messages = JSON.parse(await readFile(INBOX, "utf8"));
    const text = `message ${number} ${"x".repeat(200)}`;
    messages.push({ from: "lead", text, timestamp: new Date().toISOString(), read: false });
    await writeFile(INBOX, JSON.stringify(messages, null, 2));
  } finally {
    await unlock();
  }
}

async function write(count) {
  let givenUp = 0;
  for (let number = 0; number < count; number++) {
    await send(number).catch(() => givenUp++);
  }
  process.send(givenUp, () => process.disconnect());
}

function start(count) {
  return new Promise((resolve) => {
    const writer = fork(fileURLToPath(import.meta.url), ["writer", String(count)]);
    let givenUp = count;
    writer.on("message", (number) => (givenUp = number));
    writer.on("exit", () => resolve(givenUp));
  });
}

async function measure(messages, writers) {
  await writeFile(INBOX, "[]");
  const began = performance.now();
  const all = Array.from({ length: writers }, () => start(Math.floor(messages / writers)));
  const givenUp = (await Promise.all(all)).reduce((sum, number) => sum + number, 0);
  const milliseconds = Math.round(performance.now() - began);
  const kept = JSON.parse(await readFile(INBOX, "utf8")).length;
  console.log(JSON.stringify({ kept, givenUp, milliseconds }));
}

const [first, second] = process.argv.slice(2);
await (first === "writer" ? write(Number(second)) : measure(Number(first), Number(second)));
