// The overview of a cluster.

import assert from "node:assert/strict";
import { test } from "node:test";
import { cluster, unmeasured } from "./cluster.mjs";
import { counts, forgive, json, live, says, until } from "./support.mjs";

test("what was rejected lately is grouped by reason, what is blocked now first", async () => {
  const page = await live(json(cluster()));
  const section = page.getByRole("region", { name: "Recent rejections" });
  const rows = (await section.locator("tbody tr").allInnerTexts()).map((row) => row.replaceAll(/\s+/g, " "));
  assert.deepEqual(rows, [
    "ml / trainer blocked now deployment exceeded quota: team, requested: requests.cpu=8, used: requests.cpu=19200m, limited: requests.cpu=20 17 42 min ago 3 min ago",
    "payments / settlement cronjob, and statefulset/ledger, deployment/gateway, job/backfill and 3 more maximum memory usage per Container is 8Gi, but limit is 16Gi 21 55 min ago 12 min ago",
    'shop / images deployment admission webhook "validate.example" denied the request: image registry.example/resizer:latest has no signature 4 31 min ago 29 min ago',
  ]);
  await says(page.locator(".stats"), /1\s+blocked now\s+Workloads whose Pods the API server rejects/);
});

test("many rejections are folded, and what is missing of them is said", async () => {
  const row = (index) => ({
    namespace: `team-${index}`,
    workloads: ["job/a"],
    workloadCount: 1,
    blocked: 0,
    message: `no ${index}`,
    count: 1,
    first: null,
    last: "garbage",
  });
  const many = JSON.parse(cluster(18, { rejected: Array.from({ length: 30 }, (_, index) => row(index)) }));
  const { rejections } = many.items.at(-1).spec;
  rejections.isCut = true;
  rejections.problem = "cannot read events in all namespaces: events is forbidden";
  const page = await live(json(JSON.stringify(many)));
  const section = page.getByRole("region", { name: "Recent rejections" });
  await counts(section.locator("tbody tr"), 8);
  await section.getByRole("button", { name: "All 30" }).click();
  await counts(section.locator("tbody tr"), 30);
  await section.getByText("each namespace has the same share").waitFor();
  await says(page.locator(".stats"), /0\s+blocked now\s+Pods were rejected recently, see below/);
  await says(
    page.getByRole("region", { name: "Not covered, and notes" }),
    /Only what is blocked now is known of rejections: cannot read events in all namespaces: events is forbidden/,
  );
  const none = await live(json(cluster(18, { rejected: [] })));
  await none.getByText("Every Deployment can create its Pods").waitFor();
  await counts(none.getByRole("region", { name: "Recent rejections" }), 0);
});

test("what is not covered is named, and leads to it", async () => {
  const page = await live(json(cluster()));
  const facts = page.getByRole("region", { name: "Not covered, and notes" });
  await says(facts, /1 of 18 containers without usage data: search deployment\/suggest app/);
  await facts.getByRole("link").click();
  await counts(page.locator(".scroller tr.row th b"), 1);
  await says(page.locator(".scroller tr.row th b"), /^suggest$/);
  const bare = JSON.parse(cluster());
  bare.items = bare.items.filter(
    ({ kind, metadata }) =>
      kind !== "LimitRange" && kind !== "TenantQuota" && (kind !== "ResourceQuota" || metadata.namespace === "ml"),
  );
  const other = await live(json(JSON.stringify(bare)));
  const told = other.getByRole("region", { name: "Not covered, and notes" });
  await says(told, /4 namespaces without a quota: payments, platform, search, shop/);
  await says(told, /5 namespaces without a LimitRange: ml, payments, platform and 2 more/);
});

test("the overview says what is new since yesterday, and names the cluster", async () => {
  const page = await live(json(cluster()));
  await says(
    page.getByRole("region", { name: "Since yesterday" }),
    /OOM-killed\s+shop \/ catalog, platform \/ kafka[^]*blocked\s+ml \/ trainer[^]*set as recommended\s+shop \/ web/,
  );
  await says(page.locator(".brand"), /Headroom\s+prod-eu/);
  assert.equal(await page.title(), "Overview · prod-eu · Headroom");
  await page.getByRole("region", { name: "Since yesterday" }).getByRole("link", { name: "shop / web" }).click();
  await until(() => page.evaluate(() => document.activeElement.innerText), /deployment\/web/);
});

test("what was resized, what was taken back, and what would be done stand in the overview", async () => {
  const page = await live(json(cluster()));
  const section = page.getByRole("region", { name: "Resizes of running pods" });
  const rows = (await section.locator("tbody tr").allInnerTexts()).map((row) => row.replaceAll(/\s+/g, " "));
  for (const [index, told] of [
    /^payments \/ gateway deployment taken back gateway: not lowered until \d+ \w+ \d{4}, \d\d:\d\d UTC A container is throttled/,
    /^search \/ ingest deployment under way ingest-7c9f6d5b48-x2v9q: worker: CPU request 1.25 cores → 0.84 cores, memory request 2.5 GiB → 1.7 GiB It would be admitted so today; watched since/,
    /^shop \/ web deployment would resize pod web-6d4b9c6f5-bcdf4: would resize nginx [^]* 9 min ago$/,
    /^search \/ query deployment changed 5 lowered, 4 settled; last app: CPU request 1 → 0.67 cores, memory request 2.0 GiB → 1.3 GiB It would be admitted so today 3 h ago$/,
    /^shop \/ catalog deployment changed 1 raised, 1 settled; last app: memory limit 1.0 GiB → 1.2 GiB It was killed for memory 44 min ago$/,
  ].entries())
    assert.match(rows[index], told);
  await section.getByRole("link", { name: "shop / web" }).click();
  await until(() => page.evaluate(() => document.activeElement.innerText), /deployment\/web/);
  const without = JSON.parse(cluster());
  delete without.items.at(-1).spec.resizes;
  await counts((await live(json(JSON.stringify(without)))).getByRole("region", { name: "Resizes of running pods" }), 0);
});

test("a store that fails or is silent is grey, and nothing says that all is well", async () => {
  for (const [problem, told] of [
    [
      "cannot reach `http://127.0.0.1:1`: Connection refused",
      /Usage is not known\s+Cannot reach http:\/\/127.0.0.1:1: Connection refused/,
    ],
    [undefined, /Usage is not known\s+Its source has no samples of any container that runs here/],
  ]) {
    const page = await live(json(unmeasured(problem)));
    await says(page.locator(".banner"), told);
    await says(
      page.locator(".stats"),
      /^1\s+at risk\s+Without a request\. Not known: who is killed[^]*–\s+usage unknown\s+What can be freed is not known$/,
    );
    assert.doesNotMatch(await page.locator("main").innerText(), /No container is killed|name a namespace/);
    await counts(page.locator(".stat.unknown"), 1);
    await counts(page.locator(".stat .less"), 0);
  }
});

test("a view has its shape before it has rows, and rows before usage is read", async () => {
  const page = await live(json("{}"), {}, "#workloads", { "rows.json": json(unmeasured()) });
  // The first answer was none: what is shown is what came before it.
  forgive(/./);
  await page.route("**/live/cluster.json", () => {});
  await page.reload();
  await page.locator(".pending .scroller tr.row").first().waitFor();
  await page.getByRole("link", { name: "Overview" }).click();
  await says(page.locator(".stats"), /–\s+usage is being read/);
  await counts(page.locator(".banner"), 0);
  await page.route("**/live/rows.json", () => {});
  await page.reload();
  await page.locator(".waiting .stat").first().waitFor();
  await says(page.locator(".waiting [role=status]"), /^Reading pods, 25%…$/);
});
