// A cluster inside one file, as `kubectl headroom ui --export` writes it, opened from disk.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { HOSTILE, MADE, cluster } from "./cluster.mjs";
import { SHOTS, counts, forgive, open, report, says } from "./support.mjs";

/** Opens it from disk, without a network. */
async function opened(file, hash = "", options = {}) {
  const page = await open(null, options);
  await page.context().setOffline(true);
  await page.goto(`file://${file}${hash}`);
  await page.waitForFunction(() => document.documentElement.dataset.cluster === "shown");
  return page;
}

test("a report opens from disk with all views but what if", async () => {
  const file = report(cluster());
  const page = await opened(file);
  await says(page.locator("#shows"), /35 objects in 5 namespaces/);
  assert.deepEqual(await page.locator(".tabs a").allInnerTexts(), ["Overview", "Workloads", "Quotas"]);
  await counts(page.locator("#refresh, #scope, #leave"), 0);
  await page.getByRole("link", { name: "Workloads", exact: true }).click();
  await page.locator(".scroller tr.row a").first().click();
  await page.locator(".details .patch").waitFor();
  await counts(page.getByRole("button", { name: "Copy kustomization" }), 0);
  await page.goBack();
  await counts(page.locator(".details"), 0);
  const linked = await opened(file, "#workloads?q=kafka");
  await counts(linked.locator(".scroller tr.row"), 1);
});

test("nothing that is named in a report is run", async () => {
  const page = await opened(report(cluster(18, { hostile: HOSTILE[0] })));
  await says(page.locator("main"), /onerror/);
  await counts(page.locator("main").locator(MADE), 0);
  assert.doesNotMatch(await page.title(), /^run$/);
  // Its policy lets no other script in.
  await page
    .evaluate(() => {
      document
        .querySelector("main")
        .append(Object.assign(document.createElement("script"), { src: "data:text/javascript,document.title='run'" }));
    })
    .catch(() => {});
  assert.doesNotMatch(await page.title(), /^run$/);
  forgive(/TrustedScript|Content Security Policy/);
});

test("a report is printed with all views", async () => {
  const page = await opened(report(cluster()), "", { colorScheme: "light" });
  await page.evaluate(() => window.dispatchEvent(new Event("beforeprint")));
  await counts(page.locator(".scroller tr.row"), 18);
  await page.emulateMedia({ media: "print" });
  await page.locator(".quota").first().waitFor();
  assert.equal(await page.locator(".top nav").first().isVisible(), false);
  const pdf = await page.pdf({ format: "A4", landscape: true });
  if (SHOTS) writeFileSync(join(SHOTS, "report.pdf"), pdf);
  assert.ok(pdf.length > 20_000);
});
