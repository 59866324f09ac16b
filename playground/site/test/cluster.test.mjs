// The page with a cluster behind it: every view, reading, and the local server itself.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { HOSTILE, MADE, cluster } from "./cluster.mjs";
import {
  PAGE,
  PLUGIN,
  SHOTS,
  WINDOWS,
  browser,
  counts,
  evaluated,
  faults,
  forgive,
  hindersNobody,
  holds,
  json,
  live,
  open,
  paste,
  says,
} from "./support.mjs";

test("kubectl headroom ui shows the cluster and answers nobody else", { skip: !PLUGIN }, async () => {
  const root = join(import.meta.dirname ?? new URL(".", import.meta.url).pathname, "../../..");
  const child = spawn(
    PLUGIN,
    [
      "ui",
      "-A",
      "--cluster-dir",
      join(root, "docs/examples/shop/cluster"),
      "--cluster-dir",
      join(root, "docs/examples/shop/usage"),
      "--settings",
      join(root, "docs/examples/shop/settings.yaml"),
    ],
    { env: { ...process.env, HEADROOM_PAGE: PAGE }, stdio: ["ignore", "pipe", "inherit"] },
  );
  const context = await browser.newContext();
  try {
    const told = await new Promise((resolve, reject) => {
      child.stdout.once("data", (data) => resolve(String(data)));
      child.once("exit", (code) => reject(new Error(`kubectl headroom ui ended with ${code}`)));
    });
    const address = /http:\S+/.exec(told)[0];
    const page = await context.newPage();
    page.on("pageerror", (error) => faults.push(String(error)));
    page.on("console", (message) => message.type() === "error" && faults.push(message.text()));
    await page.goto(address);
    await page
      .locator("#shows")
      .getByText(/^\d+ objects in 1 namespace/)
      .waitFor();
    const row = page.locator(".scroller tr.row").filter({ hasText: "web" });
    await page.getByRole("link", { name: "Workloads", exact: true }).click();
    await says(row.locator(".spread title").first(), /^p50 0.069 cores, .*peak 0.23 cores/);
    await row.locator("a").click();
    await page
      .locator(".details p")
      .getByText(/^p50\s0\.069/)
      .waitFor();
    if (SHOTS) await page.screenshot({ path: join(SHOTS, "ui-details.png") });
    await page.getByRole("link", { name: "What if" }).click();
    await page
      .locator("#status .hidden")
      .getByText(/^2 workloads and pods/)
      .waitFor();
    await paste(
      page,
      "apiVersion: v1\nkind: LimitRange\nmetadata: {name: new}\nspec: {limits: [{type: Container, max: {memory: 512Mi}}]}\n",
    );
    await page.locator("#status .hidden").getByText("1 newly rejected").waitFor();
    // What was written stays when the cluster is read again.
    await page.getByRole("button", { name: "Refresh" }).click();
    await page.waitForFunction(() => document.querySelector("#refresh").textContent === "Refresh");
    await page.locator("#status .hidden").getByText("1 newly rejected").waitFor();
    await holds(page, /name: new/);
    for (const [path, headers, status] of [
      ["", {}, 200],
      ["cluster.json", { origin: "https://evil.example" }, 403],
      ["../", {}, 404],
    ]) {
      assert.equal((await page.request.get(new URL(path, address).href, { headers })).status(), status, path);
    }
  } finally {
    // Its page would go on asking, and its faults would be taken for a later test's.
    await context.close();
    child.kill();
  }
});

for (const [theme, width] of WINDOWS) {
  test(`every view of a cluster hinders nobody: ${theme}, ${width} px`, async () => {
    const page = await live(json(cluster()), {
      viewport: { width, height: 900 },
      colorScheme: theme,
      reducedMotion: "reduce",
    });
    for (const view of [
      "overview",
      "workloads",
      "workload=shop/deployment/catalog/app",
      "quotas",
      "quotas=proposed",
      "what-if",
    ]) {
      await page.evaluate((view) => (location.hash = view), view);
      if (view === "what-if") await evaluated(page);
      else if (view === "quotas=proposed")
        await page.getByText("nothing would be rejected").or(page.getByText("would be rejected")).first().waitFor();
      else await page.locator(".view").waitFor();
      await hindersNobody(page, view);
      assert.deepEqual(
        await page
          .locator(".listed .table, .scroller tr.row td.number")
          .evaluateAll((all) =>
            all.filter((cell) => cell.scrollWidth > cell.clientWidth + 1).map((cell) => cell.innerText.slice(0, 60)),
          ),
        [],
        `${view}: cut off`,
      );
      if (SHOTS)
        await page.screenshot({
          path: join(SHOTS, `ui-${view.replace(/=.*\//, "")}-${theme}-${width}.png`),
          fullPage: view === "overview",
        });
    }
  });
}

test("a cluster that cannot be read is a banner and nothing else", async () => {
  let isReadable = false;
  const page = await live(() =>
    isReadable
      ? json(cluster())()
      : {
          status: 502,
          contentType: "text/plain",
          body: "cannot list pods: Forbidden; name a namespace that you may read\n",
        },
  );
  const banner = page.getByRole("alert");
  await says(banner, /^The cluster cannot be read\s+cannot list pods: Forbidden/);
  await counts(page.locator(".object, .stat, table"), 0);
  assert.doesNotMatch(await page.locator("body").innerText(), /shop|cache/);
  if (SHOTS) await page.screenshot({ path: join(SHOTS, "ui-unreadable.png") });
  isReadable = true;
  await page.getByRole("button", { name: "Try again" }).click();
  await page.locator(".stat").first().waitFor();
  await counts(banner, 0);
  isReadable = false;
  await page.getByRole("button", { name: "Refresh" }).click();
  await banner.getByText(/^Shown as of/).waitFor();
  assert.ok((await page.locator(".stat").count()) > 0);
  // It would be read again after a minute, in another test.
  await page.context().close();
  // The browser itself reports each answer of 502.
  forgive(/502/);
});

test("reading the cluster again keeps search, scroll, selection and focus", async () => {
  let reads = 0;
  const answer = json(cluster(2_000));
  const page = await live(() => ++reads && answer(), {}, "#workloads");
  await page.getByLabel("Search workloads").fill("app-0");
  const first = await page.locator(".scroller tr.row a").first().innerText();
  await page.locator(".scroller").evaluate((element) => (element.scrollTop = 5_000));
  // The rows in sight are drawn after the scrolling.
  await page.waitForFunction((first) => document.querySelector(".scroller tr.row a").innerText !== first, first);
  const row = page.locator(".scroller tr.row a").nth(14);
  const name = await row.innerText();
  await row.click();
  await page.locator(".details").waitFor();
  const before = await page.locator(".scroller").evaluate((element) => element.scrollTop);
  await page.getByLabel("Search workloads").focus();
  await page.evaluate(() => document.querySelector("#refresh").click());
  await page.waitForFunction(() => document.querySelector("#refresh").textContent === "Refresh");
  assert.equal(reads, 2);
  assert.equal(await page.inputValue("[aria-label='Search workloads']"), "app-0");
  assert.equal(await page.locator(".scroller").evaluate((element) => element.scrollTop), before);
  assert.equal(await page.evaluate(() => document.activeElement.ariaLabel), "Search workloads");
  assert.equal(await page.locator("tr.selected a").innerText(), name);
});

test("hostile names are shown and never run in any view", async () => {
  const page = await live(json(cluster(18, { hostile: HOSTILE[0] })));
  for (const view of ["overview", "workloads", "quotas", "what-if"]) {
    await page.evaluate((view) => (location.hash = view), view);
    await page
      .locator(view === "what-if" ? "#results section" : ".view")
      .first()
      .waitFor();
    await says(page.locator("main"), /onerror/, view);
    await counts(page.locator("main").locator(MADE), 0);
  }
  for (let row = 0; row < 18; row++) {
    await page.evaluate(() => (location.hash = "workloads"));
    await page.locator(".scroller tr.row a").nth(row).click();
    await page.locator(".details").waitFor();
    await counts(page.locator("main").locator(MADE), 0);
  }
  assert.notEqual(await page.title(), "run");
});

/** The landmarks and headings that a screen reader offers, in its order, by Chromium's accessibility tree. */
async function heard(page) {
  const roles = [
    "banner",
    "navigation",
    "main",
    "region",
    "heading",
    "status",
    "alert",
    "article",
    "complementary",
    "tablist",
    "textbox",
    "searchbox",
  ];
  const client = await page.context().newCDPSession(page);
  const { nodes } = await client.send("Accessibility.getFullAXTree");
  const byId = new Map(nodes.map((node) => [node.nodeId, node]));
  const found = [];
  const walk = ({ ignored, role, name, childIds = [] }) => {
    if (!ignored && roles.includes(role.value)) found.push(`${role.value} ${name?.value ?? ""}`.trim());
    for (const id of childIds) if (byId.has(id)) walk(byId.get(id));
  };
  walk(nodes[0]);
  return found;
}

test("a screen reader hears verdicts and views in the order of their importance", async () => {
  const cards = ["pod/cache: Rejected", "pod/migrate: Changed", "deployment.apps/web: Pods blocked"].flatMap((card) => [
    `article ${card}`,
    `heading ${card.split(":")[0]}`,
  ]);
  const results = [
    "region Results",
    "heading Results",
    "status",
    ...cards,
    "heading Quotas before and after these objects",
  ];
  const input = [
    "region Input",
    "tablist Panels",
    "textbox Objects (YAML)",
    "textbox Namespace of objects that name none",
  ];
  assert.deepEqual(await heard(await open("/#example=shop")), [
    "banner",
    "heading Headroom playground",
    "navigation Links",
    "main",
    ...input,
    ...results,
  ]);
  // On a phone the verdict comes first, and nothing is heard of the editor, which is not shown.
  assert.deepEqual(await heard(await open("/#example=shop", { viewport: { width: 390, height: 844 } })), [
    "banner",
    "heading Headroom",
    "navigation Links",
    "main",
    ...results,
  ]);
  const of = async (view) => {
    const page = await live(json(cluster()), {}, `#${view}`);
    if (view === "what-if") await evaluated(page);
    const found = await heard(page);
    assert.deepEqual(
      found.splice(0, 5),
      ["banner", "heading Headroom prod-eu", "navigation Views", "navigation Links", "main"],
      view,
    );
    return found;
  };
  const section = (name, note) => [`region ${name}`, `heading ${note ? `${name} ${note}` : name}`];
  assert.deepEqual(await of("overview"), [
    "region At a glance",
    ...section("Fix first", "4 containers"),
    ...section("Since yesterday"),
    ...section("Largest savings", "13 containers request more than they need"),
    ...section("Recent rejections", "Pods that the API server did not create"),
    ...section("Resizes of running pods", "6 changes in 7 days"),
    ...section("Quotas nearly full", "80% and more"),
    ...section("Not covered, and notes"),
  ]);
  const workloads = ["heading Workloads", "searchbox Search workloads", "status"];
  assert.deepEqual(await of("workloads"), workloads);
  assert.deepEqual(await of("workload=shop/deployment/catalog/app"), [
    ...workloads,
    "complementary Details of deployment/catalog",
    "heading deployment/catalog",
    "heading CPU request 0.50 cores",
    "heading Memory request 1.0 → 1.2 GiB",
  ]);
  assert.deepEqual((await of("quotas")).slice(0, 7), [
    "heading Quotas",
    "searchbox Search quotas",
    "status",
    ...section("TenantQuota commerce").map((one) => one.replace("heading TenantQuota ", "heading ")),
    "region ResourceQuota shop/team",
    "heading shop / team",
  ]);
  assert.deepEqual((await of("what-if")).slice(0, 8), [
    "region Input",
    "tablist Panels",
    "textbox LimitRanges (YAML)",
    "region Results",
    "heading Results",
    "status",
    "article shop deployment.apps/images: still rejected",
    "heading deployment.apps/images",
  ]);
});

test("while a cluster is read, the page says what is read", async () => {
  const page = await live(json(cluster()));
  let end;
  const ended = new Promise((resolve) => (end = resolve));
  await page.route("**/live/cluster.json", async (route) => {
    await ended;
    await route.fulfill(json(cluster())());
  });
  await page.getByRole("button", { name: "Refresh" }).click();
  await page.getByText("Reading pods, 25%").waitFor();
  end();
  await page.getByText(/^read \d+:/).waitFor();
});
