// What all browser tests share: Debian's Chromium, led by Playwright, and the page in it. `node --test test/` with
//   PAGE      the folder of the built page
//   OUTCOMES  what the engine answers natively to each example (headroom-page-examples --outcomes)
//   SHOTS     the folder for screenshots; optional
//   PICTURES  the folder for the pictures of README and book; optional
//   PLUGIN    kubectl-headroom; without it `kubectl headroom ui` is not tested

import assert from "node:assert/strict";
import { createReadStream, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { extname, join } from "node:path";
import { after, afterEach, before } from "node:test";
import { gzipSync } from "node:zlib";
import { chromium } from "playwright-core";
import { bounds, courseOf } from "./cluster.mjs";

export const { PAGE, OUTCOMES, SHOTS, PICTURES, PLUGIN, CHROMIUM = "/usr/bin/chromium" } = process.env;
export const outcomes = JSON.parse(readFileSync(OUTCOMES, "utf8"));
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
export const TYPES = {
  ".html": "text/html",
  ".js": "text/javascript",
  ".css": "text/css",
  ".wasm": "application/wasm",
  ".json": "application/json",
  ".svg": "image/svg+xml",
  ".woff2": "font/woff2",
  ".txt": "text/plain",
};

/** Themes and widths in which the page is looked at. */
export const WINDOWS = [1440, 1024, 390].flatMap((width) => [
  ["light", width],
  ["dark", width],
]);

/** Nothing that axe knows hinders anybody, and the page is no wider than its window. */
export async function hindersNobody(page, where) {
  await page.evaluate(axe);
  const { violations, extra } = await page.evaluate(async () => {
    const { scrollWidth, clientWidth } = document.documentElement;
    const runOnly = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
    return { ...(await globalThis.axe.run(document, { runOnly })), extra: scrollWidth - clientWidth };
  });
  const told = violations.map(({ id, nodes }) => {
    const those = nodes.slice(0, 3).map((node) => `${node.target} ${node.failureSummary}`);
    return `${id}: ${those.join(" | ")}`;
  });
  assert.deepEqual(told, [], where);
  assert.equal(extra, 0, `${where}: the page is wider than the window`);
}

export let browser, origin;
let server;
/** What went wrong in the pages of one test. */
export let faults = [];

before(async () => {
  server = createServer((request, response) => {
    // Browsers ask for it where a file, and not a page, is opened.
    if (request.url === "/favicon.ico") return response.writeHead(204).end();
    const path = join(PAGE, new URL(request.url, "http://page").pathname.replace(/\/$/, "/index.html"));
    if (!path.startsWith(PAGE) || !statSync(path, { throwIfNoEntry: false })?.isFile())
      return response.writeHead(404).end();
    response.writeHead(200, { "content-type": TYPES[extname(path)] ?? "application/octet-stream" });
    createReadStream(path).pipe(response);
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  origin = `http://127.0.0.1:${server.address().port}`;
  browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
  console.log(`# Chromium ${browser.version()}`);
});

after(async () => {
  await browser?.close();
  server?.close();
});

afterEach(() => {
  const found = faults;
  faults = [];
  assert.deepEqual(found, []);
});

/** A page of its own browser context, whose faults count. */
export async function open(path = "/", options = {}) {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 900 },
    permissions: ["clipboard-read", "clipboard-write"],
    ...options,
  });
  const page = await context.newPage();
  page.setDefaultTimeout(15_000);
  page.on("request", (request) => {
    const { protocol } = new URL(request.url());
    if (!request.url().startsWith(`${origin}/`) && !["blob:", "file:", "data:"].includes(protocol))
      faults.push(`request to ${request.url()}`);
  });
  page.on("console", (message) => {
    // A page without a network asks for its icon in vain.
    if (message.type() === "error" && !message.location().url.endsWith("/icon.svg")) faults.push(message.text());
  });
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("dialog", (dialog) => faults.push(`dialog: ${dialog.message()}`));
  if (path !== null) {
    await page.goto(origin + path);
    await evaluated(page);
  }
  return page;
}

/** What follows from a click may be drawn some time after it: a browser tells of an opened element only later. */
export async function counts(locator, expected) {
  const deadline = Date.now() + 10_000;
  while ((await locator.count()) !== expected && Date.now() < deadline)
    await new Promise((resolve) => setTimeout(resolve, 20));
  assert.equal(await locator.count(), expected);
}

/** The same of a text. */
export async function says(locator, expected, message) {
  await until(
    () => locator.evaluate((element) => (element instanceof HTMLElement ? element.innerText : element.textContent)),
    expected,
    message,
  );
}

/** The same of the text in the open panel. */
export const holds = (page, expected) => until(() => text(page), expected);

export async function until(read, expected, message) {
  const deadline = Date.now() + 10_000;
  let told = await read();
  while (!expected.test(told) && Date.now() < deadline) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    told = await read();
  }
  assert.match(told, expected, message);
}

export async function evaluated(page) {
  await page.waitForFunction(
    () => ["evaluated", "failed"].includes(document.documentElement.dataset.state),
    undefined,
    { polling: 5 },
  );
  assert.equal(await page.evaluate(() => document.documentElement.dataset.state), "evaluated", await status(page));
}

/** Puts a text into the open panel, as if it was pasted over everything. */
export async function paste(page, text) {
  await page.locator("#editor .cm-content").focus();
  await page.keyboard.press("Control+a");
  await page.evaluate((text) => {
    const data = new DataTransfer();
    data.setData("text/plain", text);
    const content = document.querySelector("#editor").shadowRoot.querySelector(".cm-content");
    content.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
  }, text);
}

/** Records the time between frames in `gaps`. */
export const watchFrames = (page) =>
  page.evaluate(() => {
    window.gaps = [];
    let last = performance.now();
    const tick = () => {
      const now = performance.now();
      window.gaps.push(now - last);
      last = now;
      requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  });
export const longestFrame = (page) => page.evaluate(() => Math.max(...window.gaps));

export const text = (page) =>
  page.evaluate(
    () =>
      document.querySelector("#editor").shadowRoot.querySelector(".cm-content").cmTile?.view?.state.doc.toString() ??
      document.querySelector("#editor").shadowRoot.querySelector(".cm-content").innerText,
  );
export const status = (page) => page.locator("#status").innerText();
export const pod = (name, resources = "{}") =>
  `apiVersion: v1\nkind: Pod\nmetadata:\n  name: ${name}\nspec:\n  containers:\n  - name: a\n    image: example/a\n    resources: ${resources}\n`;

/** What the page shows, in the shape of what the engine answers: what is folded too. */
export const shown = (page) =>
  page.evaluate(async () => {
    // What is folded away is made some time after it is unfolded.
    const folds = () => [...document.querySelectorAll("#results details")];
    const deadline = Date.now() + 10_000;
    for (let isDrawn = false; !isDrawn && Date.now() < deadline; ) {
      for (const fold of folds()) fold.open = true;
      await new Promise((drawn) => setTimeout(drawn, 8));
      isDrawn = folds().every((fold) => fold.open && fold.children.length > 1);
    }
    const all = (root, selector) => [...root.querySelectorAll(selector)].map((element) => element.textContent);
    const results = document.querySelector("#results");
    return {
      objects: [...results.querySelectorAll(".object")].map((object) => ({
        object: object.querySelector("h3").textContent,
        verdict: object.dataset.verdict,
        message: all(object, ".message").join(""),
        warnings: all(object, ".warning span"),
        values: [...object.querySelectorAll("tbody tr")]
          .filter((row) => row.cells.length === 4 && row.closest("table").caption)
          .map((row) => `${row.cells[0].textContent}=${row.cells[1].textContent}`),
      })),
      problems: results.querySelectorAll(".problems li").length,
    };
  });

/** The page as `kubectl headroom ui` serves it, with this answer for the cluster. */
export async function live(answer, options = {}, hash = "", others = {}) {
  const page = await open(null, options);
  await page.route("**/live/**", async (route) => {
    const { pathname } = new URL(route.request().url());
    const name = pathname.slice("/live/".length) || "index.html";
    if (name === "cluster.json" || name === "objects.json") return route.fulfill(answer());
    if (others[name]) return route.fulfill(others[name](new URL(route.request().url()).searchParams));
    // No rows before the rest, but where a test wants them.
    if (name === "rows.json") return route.fulfill(json("null")());
    if (name === "progress.json")
      return route.fulfill({
        contentType: "application/json",
        body: JSON.stringify({ what: "Reading pods", done: 3, all: 12 }),
      });
    if (name === "why.json")
      return route.fulfill({
        contentType: "application/json",
        body: JSON.stringify({ object: "", namespace: "", state: "", findings: [], deciders: [], unread: [] }),
      });
    if (name === "bounds.json")
      return route.fulfill({ contentType: "application/json", body: JSON.stringify(bounds()) });
    // Where no store is read by the hour, the days stay.
    if (name === "hours.json")
      return route.fulfill({
        status: 200,
        contentType: "application/json",
        body: JSON.stringify(courseOf([0, 0, 400, 500, 900], [0, 0, 800, 900, 1000], [], { steps: 336, step: 3_600 })),
      });
    const body = readFileSync(join(PAGE, name));
    return route.fulfill({
      contentType: TYPES[extname(name)],
      body: name === "index.html" ? String(body).replace('<html lang="en">', '<html lang="en" data-live>') : body,
    });
  });
  await page.goto(`${origin}/live/${hash}`);
  await page.waitForFunction(() => document.documentElement.dataset.cluster !== undefined);
  return page;
}

export const json = (body) => () => ({ contentType: "application/json", body });

/** Takes faults that a test provokes from those that count. */
export function forgive(pattern) {
  faults = faults.filter((fault) => !pattern.test(fault));
}

const folder = mkdtempSync(join(tmpdir(), "headroom-report-"));
after(() => rmSync(folder, { recursive: true }));

/** A report with this snapshot inside. */
export function report(snapshot) {
  const file = join(folder, "report.html");
  const packed = gzipSync(snapshot).toString("base64");
  writeFileSync(
    file,
    readFileSync(join(PAGE, "report.html"), "utf8").replace("@SNAPSHOT@", () => packed),
  );
  return file;
}
