// SPDX-License-Identifier: Apache-2.0 OR MIT
const fs = require("fs/promises");

async function one(number) {
  const name = `d${number % 16}/${number}`, moved = `d${number % 7}/m${number}`;
  await fs.writeFile(name, String(number), { flag: "wx" });
  await fs.chmod(name, 0o640);
  await fs.rename(name, moved);
  if (Number(await fs.readFile(moved, "utf8")) !== number) throw new Error(moved);
  if (number % 2) await fs.unlink(moved);
}

(async () => {
  for (let number = 0; number < 16; number++) await fs.mkdir(`d${number}`);
  let next = 0;
  const worker = async () => { while (next < Number(process.argv[2])) await one(next++); };
  await Promise.all(Array.from({ length: 16 }, worker));
})();
