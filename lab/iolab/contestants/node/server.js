// Servers in Node: `node server.js http|echo|line HOST PORT WORKERS REPLY_BYTES`. Workers are processes of `cluster`,
// which hands them connections in turn.
"use strict";

const cluster = require("node:cluster");
const http = require("node:http");
const net = require("node:net");

const [protocol, host, port, workers, replyBytes] = process.argv.slice(2);
const BACKLOG = 4096;
const LINE_BYTES_MAX = 4096;
const LF = 10;

if (cluster.isPrimary && workers > 1) {
  for (let begun = 0; begun < workers; begun++) cluster.fork();
} else {
  const server = { http: web, echo: () => tcp(echo), line: () => tcp(line) }[protocol]();
  server.listen({ host, port: Number(port), backlog: BACKLOG });
}

// Answers / with a body and every other path with 404. The head has the fields that the engine's servers send; Node
// adds Date. Connections stay open until the client closes them.
function web() {
  const body = Buffer.alloc(Number(replyBytes), "x");
  const server = http.createServer((request, response) => {
    const found = request.url === "/";
    response.removeHeader("Connection");
    response.writeHead(found ? 200 : 404, {
      Server: "node",
      "Content-Type": "text/plain",
      "Content-Length": found ? body.length : 0,
    });
    response.end(found ? body : undefined);
  });
  server.keepAliveTimeout = 0;
  server.maxRequestsPerSocket = 0;
  return server;
}

function tcp(converse) {
  return net.createServer({ noDelay: true }, (socket) => {
    socket.on("error", () => socket.destroy());
    converse(socket);
  });
}

function echo(socket) {
  socket.pipe(socket);
}

// Sends back each line. If the socket is full, the rest waits in memory and reading pauses.
function line(socket) {
  let rest = Buffer.alloc(0);
  socket.on("data", (chunk) => {
    const input = rest.length > 0 ? Buffer.concat([rest, chunk]) : chunk;
    let begin = 0;
    for (let end; (end = input.indexOf(LF, begin)) >= 0 && end - begin < LINE_BYTES_MAX; ) begin = end + 1;
    rest = input.subarray(begin);
    if (begin > 0 && !socket.write(input.subarray(0, begin))) {
      socket.pause();
      socket.once("drain", () => socket.resume());
    }
    if (rest.length >= LINE_BYTES_MAX) {
      socket.removeAllListeners("data");
      socket.end(`error: a line has at most ${LINE_BYTES_MAX} bytes\n`);
    }
  });
}
