// Puts the page together: `node build.mjs FOLDER`. The engine (engine/) and the examples (engine/examples.json) are there
// already; scripts/build-playground.sh makes them.

import { createHash } from "node:crypto";
import { cpSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";

const [, , folder] = process.argv;
if (!folder) throw new Error("usage: node build.mjs FOLDER");

rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });

const metadata = readFileSync("../../policy-metadata.yaml", "utf8");
/** A string of JavaScript with an annotation of the policy's metadata. */
const annotation = (name) => JSON.stringify(new RegExp(`^  ${name}: (.+)$`, "m").exec(metadata)[1]);

const common = {
  outdir: folder,
  define: { DOCS: annotation("dev.headroom.documentation"), CODE: annotation("io.kubewarden.policy.url") },
  bundle: true,
  format: "esm",
  target: ["chrome123", "firefox121", "safari17.5"],
  minify: true,
  charset: "utf8",
  legalComments: "none",
  // The typeface by its own name, which index.html names.
  loader: { ".woff2": "file" },
  assetNames: "[name]",
  metafile: true,
  logLevel: "warning",
};
const built = await Promise.all([
  // What main and start share is one file, which index.html names.
  build({ ...common, entryPoints: ["src/main.ts", "src/start.tsx"], splitting: true, chunkNames: "shared" }),
  build({ ...common, entryPoints: ["src/worker.ts", "src/style.css"] }),
]);
await writeReport();
cpSync("src/index.html", join(folder, "index.html"));
cpSync("../design/logo.svg", join(folder, "icon.svg"));
for (const file of ["engine_bg.wasm", "examples.json"]) cpSync(join("engine", file), join(folder, file));
writeFileSync(join(folder, "licences.txt"), licences(built.flatMap(({ metafile }) => Object.keys(metafile.inputs))));

/** The page as one file, with a place for a snapshot: `kubectl headroom ui --export` fills it. */
async function writeReport() {
  const inlined = { ...common, loader: { ".woff2": "dataurl" }, write: false };
  const texts = await Promise.all(
    ["src/report.tsx", "src/style.css"].map(async (entry) => {
      const { outputFiles } = await build({ ...inlined, entryPoints: [entry] });
      return outputFiles[0].text;
    }),
  );
  let page = readFileSync("src/report.html", "utf8");
  for (const [index, name] of ["SCRIPT", "STYLE"].entries()) {
    const hash = createHash("sha256").update(texts[index]).digest("base64");
    page = page.replace(`@${name}-HASH@`, `sha256-${hash}`).replace(`@${name}@`, () => texts[index]);
  }
  writeFileSync(join(folder, "report.html"), page);
}

/** The licences of all packages of npm that are in the page, and after them those of the engine's crates. */
function licences(inputs) {
  const folders = new Set();
  for (const input of inputs) {
    const match = /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(input);
    if (match) folders.add(match[1]);
  }
  const texts = [...folders].sort().map((path) => {
    const { name, version, license } = JSON.parse(readFileSync(join(path, "package.json"), "utf8"));
    const file = readdirSync(path).find((entry) => /^licen[cs]e/i.test(entry));
    const text = file ? readFileSync(join(path, file), "utf8").trim() : "";
    return `${name} ${version}: ${license}\n\n${text}\n`;
  });
  const crates = readFileSync("engine/licences.txt", "utf8");
  return `The page of Headroom (Apache-2.0) contains these packages.\n\n${texts.join("\n---\n\n")}\n---\n\nCrates of the engine:\n\n${crates}`;
}
