// The list of workloads, the details of one, and what is done with several.

import assert from "node:assert/strict";
import { test } from "node:test";
import { cluster, courseOf } from "./cluster.mjs";
import { counts, forgive, json, live, says, until } from "./support.mjs";

test("on a phone the details of a workload take the place of the list", async () => {
  const page = await live(
    json(cluster()),
    { viewport: { width: 390, height: 844 } },
    "#workload=platform/statefulset/kafka/broker",
  );
  await page.locator(".details").getByText("OOM-killed 3 times at 2.0 GiB").waitFor();
  await page.locator(".scroller").waitFor({ state: "hidden" });
  assert.equal(await page.evaluate(() => scrollY), 0);
  await page.getByRole("button", { name: "Close" }).click();
  await page.locator(".scroller tr.row").filter({ hasText: "kafka" }).waitFor();
});

test("workloads are searched, filtered and sorted, and a patch is copied", async () => {
  const page = await live(json(cluster()), {}, "#workloads");
  const names = page.locator(".scroller tr.row th b");
  const chip = (name) => page.getByRole("group", { name: "Filter" }).getByRole("button", { name });
  await chip(/^At risk 4$/).click();
  await counts(names, 4);
  await chip(/^OOM-killed 2$/).click();
  await counts(names, 2);
  await chip(/^OOM-killed 2$/).click();
  await page.getByLabel("Group by namespace").uncheck();
  await page.getByRole("button", { name: "Workload", exact: true }).click();
  await page.locator("th[aria-sort='ascending']").waitFor();
  await says(names.first(), /^notebook-hub$/);
  await page.getByLabel("Search workloads").fill("ml notebook-hub/hub");
  await counts(names, 1);
  await says(names, /^notebook-hub$/);
  await page.locator(".scroller tr.row a").focus();
  await page.keyboard.press("Enter");
  // What is busy on some days only is looked at before it is lowered.
  await page.locator(".details").getByText("Look before you lower its requests").waitFor();
  await page.locator(".details summary").getByText("Patch", { exact: true }).click();
  await page.getByRole("button", { name: "Copy patch" }).click();
  await page.getByText("Patch for cluster prod-eu copied.").waitFor();
  assert.match(
    await page.evaluate(() => navigator.clipboard.readText()),
    /^kubectl --context prod-eu patch deployment\/notebook-hub --namespace ml /,
  );
  await page.goBack();
  await counts(page.locator(".details"), 0);
});

test("the patch is the engine's, with the autoscaler, and there is none of what would be blocked", async () => {
  const page = await live(json(cluster()), {}, "#workloads?at=payments/deployment/gateway/gateway");
  const details = page.locator(".details");
  await says(details.locator(".patch"), /kind: Deployment[^]*---\nkind: HorizontalPodAutoscaler/);
  await details.getByText("Its CPU target is set to 235%, or expect 6 to 20 Pods").waitFor();
  await details.getByRole("button", { name: "Copy patch" }).click();
  await page.getByText("Patch for cluster prod-eu copied.").waitFor();
  assert.equal(
    (await page.evaluate(() => navigator.clipboard.readText())).match(/kubectl --context prod-eu patch /g).length,
    2,
  );
  await page.evaluate(() => (location.hash = "#workloads?at=ml/deployment/trainer/main"));
  await details.getByText("2 pods of it exceed quota team by 1.2 cores; 4.80 cores fits").waitFor();
  await details.getByText("exceeded quota: team, requested").waitFor();
  await counts(details.locator(".patch"), 0);
});

test("usage is drawn over time, by the hour where the store is asked, with kills and releases", async () => {
  const asked = [];
  const hours = (query) => {
    asked.push(String(query));
    return {
      contentType: "application/json",
      body: JSON.stringify(courseOf([0, 0, 430, 498, 500], [0, 0, 820, 1000, 1024], [], { steps: 336, step: 3_600 })),
    };
  };
  const page = await live(json(cluster()), {}, "#workloads?at=shop/deployment/catalog/app", { "hours.json": hours });
  const chart = page.locator(".details .chart");
  await counts(chart, 2);
  await page.locator(".chart .told").getByText("peak of each hour, up to").first().waitFor();
  assert.deepEqual(asked, ["workload=shop%2Fdeployment%2Fcatalog&container=app"]);
  // The kills are those of the days, which know their times.
  await counts(chart.first().locator("line.kill"), 2);
  await counts(chart.first().locator("line.request"), 1);
  await counts(chart.first().locator("line.recommended"), 1);
  await counts(chart.first().locator("line.limit"), 1);
  assert.equal((await chart.first().locator("path").first().getAttribute("d")).match(/h1/g).length, 336);
  await chart.first().hover({ position: { x: 5, y: 20 } });
  await says(chart.first().locator(".told"), /^\d+ \w+, \d\d:00 UTC: [\d.]+ cores$/);
  await page.getByRole("button", { name: "Close" }).click();
  const row = (name) => page.locator(".scroller tr.row").filter({ hasText: name });
  await counts(row("gateway").first().locator(".course line.release"), 2);
  assert.equal(
    (await row("gateway").first().locator(".course path").first().getAttribute("d")).match(/h1/g).length,
    14,
  );
  for (const [name, mark] of [
    ["settlement", "nightly"],
    ["notebook-hub", "weekly"],
    ["features", "growing"],
    ["ledger", "pods differ"],
    ["logs", "last seen 10 d ago"],
  ]) {
    await page.getByLabel("Search workloads").fill(name);
    await row(name).getByText(mark, { exact: true }).waitFor();
  }
});

test("the details begin with what is wrong now, and the one command for it", async () => {
  const asked = [];
  const why = (query) => {
    asked.push(String(query));
    const findings = [
      {
        severity: "critical",
        problem: "2 of 3 pods are missing",
        details: ["exceeded quota: team"],
        since: "09:12",
        command: "kubectl headroom why deployment/catalog -n shop",
      },
      { severity: "warning", problem: "container app: OOM-killed 3 times at 1Gi", details: [], command: "" },
    ];
    return {
      contentType: "application/json",
      body: JSON.stringify({
        state: "1 of 3 replicas are ready",
        findings,
        deciders: [{ who: "HorizontalPodAutoscaler catalog", decides: "sets the number of pods" }],
        unread: [],
      }),
    };
  };
  const page = await live(json(cluster()), {}, "#workloads?at=shop/deployment/catalog/app", { "why.json": why });
  await says(
    page.locator(".details"),
    /1 of 3 replicas are ready[^]*2 of 3 pods are missing since 09:12[^]*exceeded quota: team[^]*kubectl headroom why[^]*HorizontalPodAutoscaler catalog sets the number of pods[^]*OOM-killed 3 times at 1.0 GiB/,
  );
  // What the advice says too is said once.
  assert.equal((await page.locator(".details").innerText()).match(/OOM-killed 3 times/g).length, 1);
  assert.deepEqual(asked, ["workload=shop%2Fdeployment%2Fcatalog"]);
});

test("search, filter, order and selection are in the address and there again after a reload", async () => {
  const page = await live(json(cluster()), {}, "#workloads");
  await page.getByLabel("Search workloads").fill("shop");
  await page.getByRole("button", { name: /^At risk/ }).click();
  await page.getByRole("button", { name: "Memory request" }).click();
  await page.getByLabel("Group by namespace").uncheck();
  await page.getByLabel("Select deployment/images resizer").check();
  await page.waitForFunction(() => /pick=/.test(location.hash));
  assert.equal(
    new URL(page.url()).hash,
    "#workloads?q=shop&only=risk&sort=-memory&flat=1&pick=shop/deployment/images/resizer",
  );
  await page.reload();
  await counts(page.locator(".scroller tr.row"), 3);
  assert.equal(await page.inputValue("#search"), "shop");
  await page.locator("th[aria-sort='descending']").getByText("Memory").waitFor();
  await page.locator("tr.picked").getByText("images").waitFor();
  assert.equal(await page.title(), "Workloads · prod-eu · Headroom");
});

test("keys move through the workloads, and the focus goes where the eye goes", async () => {
  const page = await live(json(cluster(2_000)), {}, "#overview");
  const focused = () =>
    page.evaluate(
      () => document.activeElement.dataset.id ?? document.activeElement.id ?? document.activeElement.tagName,
    );
  const focusedText = () => page.evaluate(() => document.activeElement.innerText);
  await page.keyboard.press("/");
  await until(focused, /^search$/);
  await page.keyboard.press("Escape");
  const order = await page.evaluate(() =>
    [...document.querySelectorAll(".scroller tr.row a")].slice(0, 4).map((link) => link.dataset.id),
  );
  await page.keyboard.press("j");
  await until(focused, new RegExp(`^${order[0]}$`));
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("j");
  await page.keyboard.press("k");
  await until(focused, new RegExp(`^${order[1]}$`));
  await page.keyboard.press("x");
  await page.locator(".selection").getByText("1 workload selected").waitFor();
  await page.keyboard.press("Enter");
  await until(focusedText, new RegExp(order[1].split("/").slice(1, 3).join("/")));
  await page.keyboard.press("j");
  await until(focusedText, new RegExp(order[2].split("/").slice(1, 3).join("/")));
  await page.keyboard.press("Escape");
  await until(focused, new RegExp(`^${order[2]}$`));
  // Rows far away are drawn when they are reached.
  for (let row = 0; row < 60; row++) await page.keyboard.press("j");
  await page.waitForFunction(
    () => document.activeElement.dataset.id !== undefined && document.querySelector(".scroller").scrollTop > 1_500,
  );
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "Command" }).fill("quot");
  await page.keyboard.press("Enter");
  await page.locator(".view.quotas").waitFor();
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "Command" }).fill("app-01234");
  await page.keyboard.press("Enter");
  await until(focusedText, /app-01234$/);
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "Command" }).waitFor();
  await page.keyboard.press("Escape");
  await counts(page.locator("dialog"), 0);
});

test("several workloads are one change, with its effect on quotas and autoscalers, as the engine words it", async () => {
  const asked = [];
  const changes = (query) => {
    asked.push(String(query));
    return query.get("form") === "markdown"
      ? { status: 502, body: "the store is away\n" }
      : { contentType: "application/json", body: JSON.stringify("kind: Deployment\n") };
  };
  const page = await live(json(cluster()), {}, "#workloads", { "changes.json": changes });
  await page.getByLabel("Select deployment/gateway gateway").check();
  await page.getByLabel("Select deployment/web nginx").check();
  const selection = page.getByRole("region", { name: "Selection" });
  await says(selection, /2 workloads selected frees 13.2 cores, frees 6.7 GiB, 1 autoscaler adjusted/);
  await says(selection, /shop\/team requests.cpu: 17.2 → 12.3 of 20.0 cores/);
  await page.getByRole("button", { name: "Copy kustomization" }).click();
  await page.getByText("Kustomization for cluster prod-eu copied.").waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), "kind: Deployment\n");
  await page.getByRole("button", { name: "Copy pull-request text" }).click();
  await page.getByRole("alert").getByText("the store is away").waitFor();
  assert.deepEqual(
    asked,
    ["kustomize", "markdown"].map(
      (form) => `form=${form}&workload=payments%2Fdeployment%2Fgateway&workload=shop%2Fdeployment%2Fweb`,
    ),
  );
  forgive(/502/);
  await page.keyboard.press("Escape");
});
