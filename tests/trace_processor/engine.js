// Runs the trace_processor engine of a Perfetto UI build (engine_bundle.js + wasm) under Node, as a filter.
//
// The engine expects to be a Web Worker; a `vm` context gives it just enough of one. Requests on stdin and
// answers on stdout are frames: 4 bytes little-endian length, then the bytes (TraceProcessorRpcStream messages).
// Every request is answered by its reply frames followed by one empty frame.
"use strict";
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const folder = process.argv[2];

function fileOf(url) {
  return path.join(folder, path.basename(String(url)));
}

// The engine reads and instantiates its wasm synchronously.
class SyncRequest {
  open(_method, url) { this.url = url; }
  send() {
    this.response = new Uint8Array(fs.readFileSync(fileOf(this.url))).buffer;
    this.status = 200;
  }
}

function workerScope() {
  const scope = {
    console: { log: (...a) => console.error(...a), warn: (...a) => console.error(...a), error: (...a) => console.error(...a) },
    setTimeout, clearTimeout, setInterval, clearInterval, performance, TextDecoder, TextEncoder, URL,
    location: { href: "http://engine.invalid/engine_bundle.js" },
    importScripts() { throw new Error("the engine asked for another script"); },
    XMLHttpRequest: SyncRequest,
    crypto: globalThis.crypto,
  };
  scope.self = scope;
  scope.WorkerGlobalScope = function WorkerGlobalScope() {};
  vm.createContext(scope);
  return scope;
}

function frame(bytes) {
  const length = Buffer.alloc(4);
  length.writeUInt32LE(bytes.length);
  fs.writeSync(1, length);
  for (let at = 0; at < bytes.length; ) at += fs.writeSync(1, bytes, at);
}

function readExactly(count) {
  const buffer = Buffer.alloc(count);
  for (let at = 0; at < count; ) {
    const got = fs.readSync(0, buffer, at, count - at, null);
    if (got === 0) return null;
    at += got;
  }
  return buffer;
}

function serve(port, Bytes) {
  for (;;) {
    const length = readExactly(4);
    if (length === null) return;
    port.onmessage({ data: new Bytes(readExactly(length.readUInt32LE())) });
    frame(Buffer.alloc(0));
  }
}

const port = { postMessage: (bytes) => frame(Buffer.from(bytes)) };
const scope = workerScope();
vm.runInContext(fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8"), scope);
scope.onmessage({ data: port });
const Bytes = vm.runInContext("Uint8Array", scope); // the engine asserts its own realm's type
setImmediate(() => serve(port, Bytes)); // after the engine's own start, which is a microtask
