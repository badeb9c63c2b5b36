// What an editor's plugin does, with the JSON-RPC library that the editor brings: spawn, message, poll, follow,
// cancel, join, stop. Says "all is well", or fails with the step.

import assert from "node:assert/strict";
import { connect } from "node:net";
import rpc from "vscode-jsonrpc/node.js";

const open = (path) =>
  new Promise((resolve, reject) => {
    const socket = connect(path, () => {
      const connection = rpc.createMessageConnection(
        new rpc.StreamMessageReader(socket),
        new rpc.StreamMessageWriter(socket),
      );
      connection.listen();
      resolve(connection);
    });
    socket.on("error", reject);
  });

const path = process.argv[2];
const connection = await open(path);
const call = (method, params = {}) => connection.sendRequest(method, params);

const hello = await call("daemon.hello", {
  protocolVersion: 1,
  client: { name: "test", version: "1", kind: "editor" },
});
assert.equal(hello.role, "operator");

const ended = new Promise((resolve) => {
  connection.onNotification("event", ({ result }) => {
    if (result.type === "task_completed") resolve(result.data.taskId);
  });
});
const printed = new Promise((resolve) => {
  let seen = "";
  connection.onNotification("output", ({ result }) => {
    seen += result.text ?? "";
    if (seen.includes("hello from the agent")) resolve(seen);
  });
});
await call("event.subscribe", { topics: ["sdk"] });

const { taskId } = await call("agent.spawn", {
  command: ["/bin/cat"],
  stdin: "pipe",
  name: "agent",
  runInBackground: true,
});
await call("task.follow", { taskId, offset: 0 });
await call("task.write", { taskId, text: "hello from the agent\n" });
assert.match(await printed, /hello from the agent/);

await call("message.send", { to: "agent", message: "to the agent" });
const mail = await call("mailbox.poll", { agent: "agent", waitMs: 20000 });
assert.equal(mail.messages[0].text, "to the agent");

const source = new rpc.CancellationTokenSource();
const waiting = connection.sendRequest("task.wait", { taskIds: [taskId] }, source.token);
source.cancel();
await assert.rejects(waiting, (error) => error.code === -32800);

await call("team.create", { name: "t" });
const mate = await open(path);
const joined = await mate.sendRequest("team.join", { teamName: "t", name: "mate" });
assert.equal(joined.member.agentId, "mate@t");
mate.dispose();

const stopped = await call("task.stop", { taskId, force: true });
assert.equal(stopped.task.status, "killed");
assert.equal(await ended, taskId);
await assert.rejects(call("task.stop", { taskId }), (error) => error.code === 1113 && error.data.kind === "alreadyTerminal");

console.log("all is well");
process.exit(0);
