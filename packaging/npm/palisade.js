#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0 OR MIT
// Starts the program of this platform's package, with the same arguments, and ends as it does. This process waits
// meanwhile: Node can't replace itself by another program. The path of the program itself avoids the start of Node.
"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");

const scope = "@" + require("./package.json").name;

function program() {
  const platform = `${process.platform}-${process.arch}`;
  const name = `${scope}/${platform}`;
  try {
    return require.resolve(`${name}/bin/palisade`);
  } catch {
    const known = Object.keys(require("./package.json").optionalDependencies);
    if (known.includes(name)) {
      console.error(`palisade: error: the package ${name} with the program is not installed`);
      console.error("hint: npm install --include=optional   # repeats the installation with optional dependencies");
    } else {
      console.error(`palisade: error: there is no package with the program for ${platform}; there is ${known.join(", ")}`);
    }
    process.exit(125);
  }
}

const child = spawn(program(), process.argv.slice(2), { stdio: "inherit" });
// This process must outlive the program, whose end it reports.
for (const signal of ["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2"]) {
  process.on(signal, () => child.kill(signal));
}
child.on("error", (error) => {
  console.error(`palisade: error: can't start ${child.spawnfile}: ${error.message}`);
  process.exit(125);
});
child.on("exit", (code, signal) => {
  if (signal === null) {
    process.exit(code);
  }
  // Ends by the same signal, so that a shell says the same.
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
  // Node ignores some signals. Its process goes on then.
  setTimeout(() => process.exit(128 + constants.signals[signal]), 100);
});
