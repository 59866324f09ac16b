// The editor of the playground: marks, completion, quick fixes, keys.

import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { SHOTS, counts, evaluated, holds, open, origin, paste, pod, says, shown } from "./support.mjs";

test("broken YAML is a problem at its line, and what stands before it is evaluated", async () => {
  const page = await open();
  await paste(page, `${pod("first")}---\nkind: Pod\nmetadata: {name: [\n`);
  await page.locator(".problems").waitFor();
  await evaluated(page);
  assert.deepEqual(
    (await shown(page)).objects.map(({ object }) => object),
    ["pod/first"],
  );
  const place = page.locator(".problems .place").first();
  await says(place, /^Objects, line 1[0-9]$/);
  await page.getByRole("tab", { name: /^Settings/ }).click();
  await place.click();
  assert.equal(await page.getByRole("tab", { name: /^Objects/ }).getAttribute("aria-selected"), "true");
  assert.ok((await page.locator("#editor .cm-lint-marker-error").count()) > 0);
});

test("a settings error names the field as the policy does, at its line", async () => {
  const page = await open("/#example=wrong-settings");
  const problems = await page.locator(".problems li").allInnerTexts();
  assert.deepEqual(
    problems.map((text) => /line \d+/.exec(text)[0]),
    ["line 4", "line 6", "line 8", "line 9"],
  );
  assert.match(problems[2], /^Settings, line 8 limitRanges\.mode is wrong: expected enforce, warn, off, found "on"$/);
});

test("completion and stray fields know the schema", async () => {
  const page = await open();
  await page.getByRole("tab", { name: "LimitRanges" }).click();
  await paste(
    page,
    "apiVersion: v1\nkind: LimitRange\nmetadata:\n  name: a\nspec:\n  limits:\n  - type: Container\n    maximum:\n      cpu: 1\n    ",
  );
  await evaluated(page);
  await page.locator("#editor .cm-content").focus();
  await page.keyboard.press("Control+End");
  await page.keyboard.type("defa");
  const options = page.locator("#editor .cm-tooltip-autocomplete li");
  await options.first().waitFor();
  assert.deepEqual(await options.allInnerTexts(), ["default", "defaultRequest"]);
  await page.keyboard.press("Escape");
  await counts(page.locator("#editor .cm-lint-marker-warning"), 1);
});

test("a problem of a LimitRange is at its line", async () => {
  const page = await open();
  await page.getByRole("tab", { name: "LimitRanges" }).click();
  await paste(
    page,
    "apiVersion: v1\nkind: LimitRange\nmetadata: {name: a}\nspec:\n  limits:\n  - type: Container\n    max: {cpu: 1}\n    min:\n      cpu: 2\n",
  );
  await page.locator(".problems .place").getByText("LimitRanges, line 9").waitFor();
});

test("everything is reached by keys", async () => {
  const page = await open();
  await paste(page, pod("mine"));
  await page.locator(".object h3").getByText("pod/mine").waitFor();
  await page.evaluate(() => document.activeElement.blur());
  await page.locator("#skip").focus();
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "results-heading");
  await holds(page, /name: mine/);
  await page.getByRole("tab", { name: "Objects" }).focus();
  await page.keyboard.press("ArrowRight");
  assert.equal(await page.getByRole("tab", { name: "LimitRanges" }).getAttribute("aria-selected"), "true");
  await page.keyboard.press("End");
  assert.equal(await page.getByRole("tab", { name: "Settings" }).getAttribute("aria-selected"), "true");
  await page.keyboard.press("Home");
  assert.equal(await page.evaluate(() => document.activeElement.id), "tab-objects");
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.id), "editor");
  await page.keyboard.press("Tab");
  assert.notEqual(await page.evaluate(() => document.activeElement.id), "editor");
});

test("no tab is cut off where two columns begin", async () => {
  const page = await open("/#example=shop");
  for (const width of [961, 985, 1010, 1016, 1017, 1023]) {
    await page.setViewportSize({ width, height: 800 });
    if (width <= 1016) await page.getByRole("button", { name: "Edit", exact: true }).click();
    await page.locator("#tabs").waitFor();
    assert.equal(await page.locator("#tabs").evaluate((tabs) => tabs.scrollWidth - tabs.clientWidth), 0, `${width} px`);
  }
});

test("a quick fix sets the value at its field, and the verdict follows", async () => {
  const page = await open("/#example=shop");
  const card = page.locator('.object[data-object="pod/cache"]');
  await says(
    card.locator(".why").first(),
    /^Memory limit is too high: container redis sets 2Gi, LimitRange limits allows at most 1Gi\.\s+Lower resources\.limits\.memory to 1Gi or less\. Line 12\./,
  );
  await page.locator("#editor .cm-lintRange-error").getByText("2Gi").hover();
  await page.locator("#editor .cm-diagnostic").getByText("Memory limit is too high").waitFor();
  if (SHOTS) await page.screenshot({ path: join(SHOTS, "quick-fix.png") });
  await page.locator("#editor .cm-diagnosticAction").click();
  await page.waitForFunction(
    () => document.querySelector('.object[data-object="pod/cache"]').dataset.verdict !== "rejected",
  );
  // The request was above the new limit, so it follows.
  await holds(page, /requests: \{memory: 1Gi\}\n\s+limits: \{memory: 1Gi\}/);
  assert.equal(await page.inputValue("#example"), "");
  await page.locator("#editor .cm-content").focus();
  await page.keyboard.press("Control+z");
  await card.getByRole("button", { name: "Set to 1Gi" }).click();
  await holds(page, /limits: \{memory: 1Gi\}/);
});

test("hovering explains quantities and fields", async () => {
  const page = await open("/#example=shop");
  await page.locator("#editor .cm-line").getByText("1536Mi").last().hover();
  await page.locator("#editor .hover").getByText("1536Mi = 1.5 GiB = 1,610,612,736 bytes").waitFor();
});

test("the editor is there before the engine", async () => {
  const page = await open(null);
  let send;
  const looked = new Promise((resolve) => (send = resolve));
  await page.route("**/engine_bg.wasm", async (route) => {
    await looked;
    await route.continue();
  });
  await page.goto(`${origin}/#example=shop`);
  await page.locator("#editor .cm-content").getByText("kind: Pod").first().waitFor();
  await counts(page.locator(".object"), 0);
  await says(page.locator("#status"), /Loading the engine/);
  send();
  await evaluated(page);
});
