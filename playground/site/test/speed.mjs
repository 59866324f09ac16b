// How long the page takes, and with how much. They run alone: other tests beside them would be measured too.

import assert from "node:assert/strict";
import { statSync } from "node:fs";
import { test } from "node:test";
import { cluster } from "./cluster.mjs";
import {
  counts,
  evaluated,
  json,
  live,
  longestFrame,
  open,
  origin,
  paste,
  pod,
  report,
  watchFrames,
} from "./support.mjs";

test("five megabytes are evaluated while the page stays awake", async () => {
  const page = await open();
  const one =
    pod("pod-00000", "{requests: {cpu: 100m, memory: 64Mi}, limits: {memory: 128Mi}}") +
    `  # ${"x".repeat(800)}\n---\n`;
  const count = Math.ceil((5 * 1024 * 1024) / one.length);
  const large = Array.from({ length: count }, (_, index) =>
    one.replace("pod-00000", `pod-${String(index).padStart(5, "0")}`),
  ).join("");
  await watchFrames(page);
  await paste(page, large);
  await page.waitForFunction(
    (count) => document.querySelector("#status").textContent.startsWith(`${count.toLocaleString("en")} objects`),
    count,
    { timeout: 120_000 },
  );
  const told = await page.locator(".counter").first().getAttribute("title");
  const longest = await longestFrame(page);
  console.log(`# ${(large.length / 1024 / 1024).toFixed(1)} MB: ${told}. Longest frame ${longest.toFixed(0)} ms`);
  await counts(page.locator(".object"), 20);
  await page.getByRole("button", { name: "Next", exact: true }).focus();
  await page.keyboard.press("Enter");
  await page.locator(".object h3").getByText("pod/pod-00020").waitFor({ timeout: 120_000 });
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Next");
  await page.getByRole("button", { name: "Share" }).click();
  await page.getByText(/Link copied|too large for a link/).waitFor({ timeout: 60_000 });
});

test("verdicts come at once", async () => {
  const page = await open(null);
  const begin = performance.now();
  await page.goto(origin);
  await evaluated(page);
  const first = performance.now() - begin;
  const engine = [];
  await page.locator("#editor .cm-content").focus();
  await page.keyboard.press("Control+End");
  for (let key = 0; key < 30; key++) {
    await page.evaluate(() => {
      delete document.documentElement.dataset.state;
      window.pressed = performance.now();
      new MutationObserver((_, observer) => {
        if (document.documentElement.dataset.state !== "evaluated") return;
        window.took = performance.now() - window.pressed;
        observer.disconnect();
      }).observe(document.documentElement, { attributes: true });
      const content = document.querySelector("#editor").shadowRoot.querySelector(".cm-content");
      const data = new DataTransfer();
      data.setData("text/plain", "#");
      window.pressed = performance.now();
      content.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
    });
    await page.waitForFunction(
      () => window.took !== undefined && document.documentElement.dataset.state === "evaluated",
      undefined,
      { polling: 5 },
    );
    engine.push(await page.evaluate(() => window.took));
  }
  engine.sort((a, b) => a - b);
  console.log(
    `# first verdict after ${first.toFixed(0)} ms; a key to its verdict: median ${engine[15].toFixed(1)} ms, 90 % ${engine[27].toFixed(1)} ms`,
  );
  // The aims are 1,000 and 16 ms; a busy machine takes several times as long.
  assert.ok(first < 5_000, `the first verdict took ${first} ms`);
  assert.ok(engine[15] < 150, `a key took ${engine[15]} ms`);
});

test("ten thousand workloads are there within a second, and scroll", async () => {
  const body = cluster(10_000);
  const page = await live(json(cluster()));
  await watchFrames(page);
  const took = await page.evaluate(async (body) => {
    window.fetch = async () => new Response(body);
    const begin = performance.now();
    const shown = new Promise((resolve) => {
      const observer = new MutationObserver(() => {
        if (!/10,100 objects|10,\d+ objects/.test(document.querySelector("#shows").textContent)) return;
        observer.disconnect();
        resolve();
      });
      observer.observe(document.querySelector("#app"), { subtree: true, childList: true, characterData: true });
    });
    document.querySelector("#refresh").click();
    await shown;
    return performance.now() - begin;
  }, body);
  await page.getByRole("link", { name: "Workloads", exact: true }).click();
  await page.evaluate(() => (window.gaps = []));
  const scroller = page.locator(".scroller");
  for (let step = 1; step <= 20; step++) {
    await scroller.evaluate((element, step) => (element.scrollTop = step * 3_000), step);
    await page.waitForTimeout(20);
  }
  const longest = await longestFrame(page);
  assert.ok((await page.locator(".scroller tr.row").count()) < 60);
  await scroller.evaluate((element) => (element.scrollTop = element.scrollHeight));
  await page.getByText("app-09999", { exact: true }).or(page.locator("tr.row").last()).first().waitFor();
  console.log(
    `# ${(body.length / 1024 / 1024).toFixed(1)} MB with 10,000 workloads: overview after ${took.toFixed(0)} ms, longest frame while scrolling ${longest.toFixed(0)} ms`,
  );
  // The aim is 1,000 ms; a busy machine takes several times as long.
  assert.ok(took < 4_000, `the overview took ${took} ms`);
});

test("ten thousand workloads fit a report, whose first row is soon there", async () => {
  const file = report(cluster(10_000));
  const { size } = statSync(file);
  const page = await open(null);
  const begin = performance.now();
  await page.goto(`file://${file}#workloads`);
  await page.locator(".scroller tr.row").first().waitFor();
  const took = performance.now() - begin;
  console.log(
    `# a report of 10,000 workloads: ${(size / 1024 / 1024).toFixed(1)} MB, first row after ${took.toFixed(0)} ms`,
  );
  assert.ok(size < 15 * 1024 * 1024, `${size} bytes`);
  // The aim is 2,000 ms; a busy machine takes several times as long.
  assert.ok(took < 6_000, `the first row took ${took} ms`);
});
