// The page in a real browser: Debian's Chromium, led by Playwright. `node --test test/` with
//   PAGE      the folder of the built page
//   OUTCOMES  what the engine answers natively to each example (headroom-page-examples --outcomes)
//   SHOTS     the folder for screenshots; optional
//   PICTURES  the folder for the pictures of README and book; optional
//   PLUGIN kubectl-headroom; without it `kubectl headroom ui` is not tested

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createReadStream, mkdirSync, readFileSync, readdirSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { extname, join } from "node:path";
import { after, afterEach, before, test } from "node:test";
import { deflateRawSync, gzipSync } from "node:zlib";
import { chromium } from "playwright-core";
import { bounds, cluster, courseOf } from "./cluster.mjs";

const { PAGE, OUTCOMES, SHOTS, PICTURES, PLUGIN, CHROMIUM = "/usr/bin/chromium" } = process.env;
const outcomes = JSON.parse(readFileSync(OUTCOMES, "utf8"));
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const TYPES = {
  ".html": "text/html",
  ".js": "text/javascript",
  ".css": "text/css",
  ".wasm": "application/wasm",
  ".json": "application/json",
  ".svg": "image/svg+xml",
  ".woff2": "font/woff2",
  ".txt": "text/plain",
};

let server, browser, origin;
/** What went wrong in the pages of one test. */
let faults = [];

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
async function open(path = "/", options = {}) {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 900 },
    permissions: ["clipboard-read", "clipboard-write"],
    ...options,
  });
  const page = await context.newPage();
  page.setDefaultTimeout(15_000);
  page.on("request", (request) => {
    const { protocol } = new URL(request.url());
    if (!request.url().startsWith(`${origin}/`) && protocol !== "blob:") faults.push(`request to ${request.url()}`);
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
async function counts(locator, expected) {
  const deadline = Date.now() + 10_000;
  while ((await locator.count()) !== expected && Date.now() < deadline)
    await new Promise((resolve) => setTimeout(resolve, 20));
  assert.equal(await locator.count(), expected);
}

/** The same of a text. */
async function says(locator, expected, message) {
  await until(
    () => locator.evaluate((element) => (element instanceof HTMLElement ? element.innerText : element.textContent)),
    expected,
    message,
  );
}

/** The same of the text in the open panel. */
const holds = (page, expected) => until(() => text(page), expected);

async function until(read, expected, message) {
  const deadline = Date.now() + 10_000;
  let told = await read();
  while (!expected.test(told) && Date.now() < deadline) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    told = await read();
  }
  assert.match(told, expected, message);
}

async function evaluated(page) {
  await page.waitForFunction(
    () => ["evaluated", "failed"].includes(document.documentElement.dataset.state),
    undefined,
    { polling: 5 },
  );
  assert.equal(await page.evaluate(() => document.documentElement.dataset.state), "evaluated", await status(page));
}

/** Puts a text into the open panel, as if it was pasted over everything. */
async function paste(page, text) {
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
const watchFrames = (page) =>
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
const longestFrame = (page) => page.evaluate(() => Math.max(...window.gaps));

const text = (page) =>
  page.evaluate(
    () =>
      document.querySelector("#editor").shadowRoot.querySelector(".cm-content").cmTile?.view?.state.doc.toString() ??
      document.querySelector("#editor").shadowRoot.querySelector(".cm-content").innerText,
  );
const status = (page) => page.locator("#status").innerText();
const pod = (name, resources = "{}") =>
  `apiVersion: v1\nkind: Pod\nmetadata:\n  name: ${name}\nspec:\n  containers:\n  - name: a\n    image: example/a\n    resources: ${resources}\n`;

/** What the page shows, in the shape of what the engine answers: what is folded too. */
const shown = (page) =>
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

test("every example is evaluated as the core evaluates it natively, word for word", async () => {
  const page = await open("/#example=shop");
  const names = await page
    .locator("#example option")
    .evaluateAll((options) => options.map((option) => option.value).filter(Boolean));
  assert.deepEqual([...names].sort(), Object.keys(outcomes).sort());
  for (const name of names) {
    if (name !== "shop") {
      await page.evaluate(() => delete document.documentElement.dataset.state);
      await page.selectOption("#example", name);
      await evaluated(page);
    }
    const outcome = outcomes[name];
    const expected = {
      objects: outcome.details.map(({ row, message, story }) => ({
        object: outcome.rows[row].object,
        verdict: outcome.rows[row].verdict,
        message,
        warnings: (story.warnings ?? []).map(({ message }) => message),
        values: (story.containers ?? []).flatMap((container) =>
          container.values.map(({ field, value }) => `${field}=${value ?? "–"}`),
        ),
      })),
      problems: outcome.problems.length,
    };
    assert.deepEqual(await shown(page), expected, name);
    assert.notEqual(await page.locator("#shows").innerText(), "", name);
  }
  console.log(`# ${names.length} examples`);
});

test("a link brings everything back", async () => {
  const page = await open();
  await paste(page, pod("from-a-link-é"));
  await page.fill("#namespace", "lab");
  await page.getByRole("tab", { name: "Settings" }).click();
  await paste(page, "estimates:\n  mode: never\n");
  await evaluated(page);
  await page.getByRole("button", { name: "Share" }).click();
  await page.getByText("Link copied.").waitFor();
  const link = await page.evaluate(() => navigator.clipboard.readText());
  assert.match(link, /#1\.[\w-]+$/);
  const other = await open(link.slice(origin.length));
  assert.equal(await other.inputValue("#namespace"), "lab");
  assert.deepEqual(
    (await shown(other)).objects.map(({ object }) => object),
    ["pod/from-a-link-é"],
  );
  await other.getByRole("tab", { name: "Settings" }).click();
  assert.match(await text(other), /mode: never/);
});

test("what was written is there again after a reload", async () => {
  const page = await open();
  await paste(page, pod("kept"));
  await page.waitForFunction(() => location.hash.startsWith("#1."));
  await page.goto(`${origin}/icon.svg`);
  await page.goto(origin);
  await evaluated(page);
  assert.deepEqual(
    (await shown(page)).objects.map(({ object }) => object),
    ["pod/kept"],
  );
});

test("a link that is none says so and leaves the page working", async () => {
  for (const [hash, message] of [
    ["#1.AAAA", "the link is incomplete"],
    ["#2.AAAA", "made by another version"],
    [`#1.${deflateRawSync('{"panels": 3}').toString("base64url")}`, "not made by this page"],
    [`#1.${deflateRawSync(Buffer.alloc(80 * 1024 * 1024)).toString("base64url")}`, "holds more than 64 MiB"],
  ]) {
    const page = await open(`/${hash}`);
    await says(page.locator("#message"), new RegExp(message), hash.slice(0, 20));
    await says(page.locator("#status"), /^3 objects/);
    // What is written is not lost to such a link.
    await paste(page, pod("mine"));
    await page.locator(".object h3").getByText("pod/mine").waitFor();
    await page.getByRole("button", { name: "Dismiss" }).click();
    await counts(page.locator("#message"), 0);
    await page.evaluate((hash) => (location.hash = hash), `${hash}A`);
    await page.locator("#message").waitFor();
    await holds(page, /name: mine/);
    await page.context().close();
  }
});

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

test("hostile names are shown and never run", async () => {
  const page = await open();
  const hostile = `<img src=x onerror="document.title='run'"><script>document.title='run'</script>`;
  const object = {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: hostile, namespace: hostile, annotations: { [hostile]: hostile } },
    spec: {
      containers: [{ name: hostile, image: hostile, resources: { requests: { [hostile]: hostile, cpu: hostile } } }],
    },
  };
  await paste(page, JSON.stringify(object));
  await page.locator(".object h3").getByText("<img").waitFor();
  await evaluated(page);
  assert.equal(await page.evaluate(() => document.querySelectorAll("#results img, #results script").length), 0);
  assert.notEqual(await page.title(), "run");
  assert.ok((await shown(page)).objects[0].object.includes("onerror"));
});

test("the page goes on without a network", async () => {
  const page = await open();
  await page.context().setOffline(true);
  await paste(page, pod("offline"));
  await page.locator(".object h3").getByText("pod/offline").waitFor();
});

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

/** A cluster with 5,000 pods of 500 Deployments. */
function snapshot() {
  const items = [];
  for (let team = 0; team < 50; team++) {
    const namespace = `team-${team}`;
    items.push({ apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } });
    items.push({
      apiVersion: "v1",
      kind: "LimitRange",
      metadata: { name: "limits", namespace },
      spec: { limits: [{ type: "Container", max: { memory: "2Gi" }, default: { memory: "1Gi" } }] },
    });
    items.push({
      apiVersion: "v1",
      kind: "ResourceQuota",
      metadata: { name: "team", namespace },
      spec: { hard: { "requests.cpu": "20" } },
      status: { hard: { "requests.cpu": "20" }, used: { "requests.cpu": "10" } },
    });
    for (let app = 0; app < 10; app++) {
      const spec = {
        containers: [
          {
            name: "web",
            image: "example/web:1",
            resources: { requests: { cpu: "100m", memory: "256Mi" }, limits: { memory: "1Gi" } },
          },
        ],
      };
      const labels = { app: `web-${app}` };
      items.push({
        apiVersion: "apps/v1",
        kind: "Deployment",
        metadata: { name: `web-${app}`, namespace },
        spec: { replicas: 10, template: { metadata: { labels }, spec } },
      });
      for (let pod = 0; pod < 10; pod++) {
        const ownerReferences = [
          { apiVersion: "apps/v1", kind: "ReplicaSet", name: `web-${app}-5d4`, controller: true },
        ];
        items.push({
          apiVersion: "v1",
          kind: "Pod",
          metadata: {
            name: `web-${app}-5d4-${pod}`,
            namespace,
            labels: { ...labels, "pod-template-hash": "5d4" },
            ownerReferences,
          },
          spec,
          status: { phase: "Running" },
        });
      }
    }
  }
  const settings = { estimates: { mode: "never" } };
  items.push({
    apiVersion: "headroom.dev/v1alpha1",
    kind: "Snapshot",
    metadata: { name: "snapshot" },
    spec: { settings, advice: null },
  });
  return JSON.stringify({ apiVersion: "v1", kind: "List", items });
}

test("a snapshot shows what other limits would do to everything that runs", async () => {
  const page = await open();
  const before = await text(page);
  await page
    .locator("#snapshot")
    .setInputFiles({ name: "cluster.json", mimeType: "application/json", buffer: Buffer.from(snapshot()) });
  await page.getByRole("link", { name: "What if" }).click();
  await page.locator("#status .hidden").getByText("500 workloads and pods: 500 the same").waitFor({ timeout: 60_000 });
  const address = page.url();
  await counts(page.getByRole("tab", { name: "Objects" }), 0);
  // Tabs that are not shown are not reached by keys either.
  await page.getByRole("tab", { name: "LimitRanges" }).focus();
  await page.keyboard.press("ArrowLeft");
  assert.equal(await page.evaluate(() => document.activeElement.id), "tab-settings");
  await holds(page, /mode: never/);
  await page.getByRole("tab", { name: "LimitRanges" }).click();
  await counts(page.locator("#limits details"), 50);
  await page.locator("#limits summary").first().click();
  await says(page.locator("#limits table").first(), /limits\.memory\s+1Gi\s+default of LimitRange limits/);
  await paste(
    page,
    "apiVersion: v1\nkind: LimitRange\nmetadata: {name: new}\nspec: {limits: [{type: Container, max: {memory: 512Mi}}]}\n",
  );
  await page.locator("#status .hidden").getByText("500 newly rejected").waitFor({ timeout: 60_000 });
  // The aim is 200 ms; a busy machine takes several times as long.
  const took = Number(/Evaluated in (\d+) ms/.exec(await page.locator(".counter").first().getAttribute("title"))[1]);
  assert.ok(took < 2_000, `5,650 objects took ${took} ms`);
  const group = page.getByRole("article", { name: "500 workloads: newly rejected" });
  await says(group.locator("header"), /50 namespaces/);
  await group.getByText("All 500").click();
  await counts(group.locator("tbody tr"), 500);
  await page.setViewportSize({ width: 360, height: 900 });
  assert.equal(
    await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth),
    0,
  );
  await says(page.locator(".object .message").first(), /maximum memory usage per Container is 512Mi, but limit is 1Gi/);
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document));
  assert.deepEqual(
    violations.map(({ id }) => id),
    [],
  );
  await page.setViewportSize({ width: 1280, height: 900 });
  if (SHOTS) await page.screenshot({ path: join(SHOTS, "snapshot.png") });
  // Without any LimitRange their defaults and bounds are gone.
  await paste(page, "");
  await page.locator("#status .hidden").getByText("500 the same").waitFor({ timeout: 60_000 });
  assert.doesNotMatch(await page.locator("#limits").innerText(), /LimitRange limits/);
  // What belongs to a cluster stays out of the address and the storage.
  await page.waitForTimeout(700);
  assert.equal(page.url(), address);
  assert.equal(await page.evaluate(() => localStorage.getItem("headroom.page")), null);
  await page.getByRole("button", { name: "Close snapshot" }).click();
  await evaluated(page);
  assert.equal(await text(page), before);
});

test("a file of manifests goes into the editor, and one that is no snapshot says so", async () => {
  const page = await open();
  const choose = (name, text) =>
    page.locator("#snapshot").setInputFiles({ name, mimeType: "text/yaml", buffer: Buffer.from(text) });
  await choose("deployment.yaml", pod("from-a-file"));
  await page.locator(".object h3").getByText("pod/from-a-file").waitFor();
  assert.equal(await page.inputValue("#example"), "");
  await choose("broken.json", '{"kind": "Snapshot", "items": [');
  await page.locator("#message").getByText("broken.json cannot be opened").waitFor();
  assert.deepEqual(
    (await shown(page)).objects.map(({ object }) => object),
    ["pod/from-a-file"],
  );
});

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

test("a decision is downloaded as files for kwctl", async () => {
  const page = await open();
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Download for a bug report" }).first().click(),
  ]);
  assert.equal(download.suggestedFilename(), "pod-cache.zip");
  const bytes = readFileSync(await download.path());
  assert.equal(bytes.readUInt32LE(0), 0x04034b50);
  for (const name of ["pod-cache.request.json", "pod-cache.session.yml", "pod-cache.settings.json", "replay.sh"])
    assert.ok(bytes.includes(name), name);
});

test("settings are copied as policy manifests", async () => {
  const page = await open();
  await page.getByRole("button", { name: "Export policy" }).click();
  await page.getByText("Policy manifest copied.").waitFor();
  const manifest = await page.evaluate(() => navigator.clipboard.readText());
  assert.equal(manifest.match(/^kind: ClusterAdmissionPolicy$/gm).length, 3);
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

for (const [theme, width] of [
  ["light", 1440],
  ["dark", 1440],
  ["light", 1024],
  ["dark", 1024],
  ["light", 390],
  ["dark", 390],
]) {
  test(`nothing hinders anybody: ${theme}, ${width} px`, async () => {
    const page = await open("/", { viewport: { width, height: 900 }, colorScheme: theme, reducedMotion: "reduce" });
    for (const name of ["shop", "wrong-settings", "estimate-from-own-history"]) {
      if (name !== "shop") {
        await page.evaluate(() => delete document.documentElement.dataset.state);
        await page.selectOption("#example", name);
        await evaluated(page);
      }
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() =>
        globalThis.axe.run(document, {
          runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
        }),
      );
      const told = violations.map(
        ({ id, nodes }) =>
          `${id}: ${nodes
            .slice(0, 3)
            .map((node) => `${node.target} ${node.failureSummary}`)
            .join(" | ")}`,
      );
      assert.deepEqual(told, [], name);
      const overflow = await page.evaluate(
        () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
      );
      assert.equal(overflow, 0, `${name}: the page is wider than the window`);
      const tabs = await page.locator("#tabs").evaluate((tabs) => tabs.scrollWidth - tabs.clientWidth);
      if (width >= 1024) assert.equal(tabs, 0, `${name}: a tab is cut off`);
      if (SHOTS) {
        mkdirSync(SHOTS, { recursive: true });
        await page.screenshot({ path: join(SHOTS, `${name}-${theme}-${width}.png`), fullPage: true });
      }
    }
  });
}

test("no tab is cut off where two columns begin", async () => {
  const page = await open("/#example=shop");
  for (const width of [961, 985, 1010, 1016, 1017, 1023]) {
    await page.setViewportSize({ width, height: 800 });
    if (width <= 1016) await page.getByRole("button", { name: "Edit", exact: true }).click();
    await page.locator("#tabs").waitFor();
    assert.equal(await page.locator("#tabs").evaluate((tabs) => tabs.scrollWidth - tabs.clientWidth), 0, `${width} px`);
  }
});

test("the page is small enough for a slow connection", () => {
  const files = readdirSync(PAGE).map((name) => readFileSync(join(PAGE, name)));
  const compressed = files.reduce((sum, bytes) => sum + gzipSync(bytes).length, 0);
  const engine = readFileSync(join(PAGE, "engine_bg.wasm"));
  const packed = gzipSync(engine, { level: 9 }).length;
  console.log(`# engine ${engine.length} bytes, ${packed} compressed; all files ${compressed} compressed`);
  assert.ok(compressed < 710_000, `all files together have ${compressed} bytes`);
  // The aims are 1,050,000 bytes, and 430,000 compressed, which counts more. To be won back: the table of kinds that make pods,
  // what runs already, and which admission a cluster has took 126,000, of them 48,000 compressed; what the API server says of a pod
  // as a whole, and of a pod with its defaults, took 16,000, of them 6,000; one walker over what runs, autoscalers and refused pods for all,
  // took 23,000, of them some 5,000. Of the functions before wasm-opt,
  // 87,000 bytes are granit-parser's, 41,000 the table of kinds, 40,000 Display, and 133,000 BTreeMaps of many types.
  // A change of a few lines moves the compressed size by 3,000 either way, as functions come to lie in another order.
  assert.ok(engine.length < 1_252_000, `the engine has ${engine.length} bytes`);
  assert.ok(packed < 494_000, `the engine has ${packed} bytes compressed`);
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

test("an estimate is drawn with the usage that it is made from", async () => {
  const page = await open("/#example=estimate-from-own-history");
  const drawn = page.locator('.object[data-object="pod/web"] .drawn');
  await counts(drawn, 2);
  await says(drawn.first(), /^p50\s0\.12 · .*peak\s0\.18\scores$/);
  assert.match(
    await drawn.first().locator("svg").getAttribute("aria-label"),
    /^cpu: p50 .*peak .* cores, request 0\.22 cores$/,
  );
});

test("an empty page says what to do", async () => {
  const page = await open();
  await paste(page, " ");
  await page.getByRole("heading", { name: "Nothing to evaluate yet" }).waitFor();
  await counts(page.locator("#editor .cm-lint-marker"), 0);
  if (SHOTS) await page.screenshot({ path: join(SHOTS, "empty.png") });
  await page.getByRole("button", { name: "Load an example" }).click();
  await page.locator(".object").first().waitFor();
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

/** The page as `kubectl headroom ui` serves it, with this answer for the cluster. */
async function live(answer, options = {}, hash = "", others = {}) {
  const page = await open(null, options);
  await page.route("**/live/**", async (route) => {
    const { pathname } = new URL(route.request().url());
    const name = pathname.slice("/live/".length) || "index.html";
    if (name === "cluster.json" || name === "objects.json") return route.fulfill(answer());
    if (others[name]) return route.fulfill(others[name](new URL(route.request().url()).searchParams));
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

const json = (body) => () => ({ contentType: "application/json", body });

for (const [theme, width] of [
  ["light", 1440],
  ["dark", 1440],
  ["light", 1024],
  ["dark", 1024],
  ["light", 390],
  ["dark", 390],
]) {
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
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => globalThis.axe.run(document));
      assert.deepEqual(
        violations.map(
          ({ id, nodes }) =>
            `${id}: ${nodes
              .slice(0, 3)
              .map((node) => `${node.target} ${node.failureSummary}`)
              .join(" | ")}`,
        ),
        [],
        view,
      );
      assert.equal(
        await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth),
        0,
        `${view}: the page is wider than the window`,
      );
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
  faults = faults.filter((fault) => !fault.includes("502"));
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

test("hostile names are shown and never run in any view", async () => {
  const hostile = `<img src=x onerror="document.title='run'">`;
  const page = await live(json(cluster(18, { hostile })));
  for (const view of ["overview", "workloads", "quotas", "what-if"]) {
    await page.evaluate((view) => (location.hash = view), view);
    await page
      .locator(view === "what-if" ? "#results section" : ".view")
      .first()
      .waitFor();
    await says(page.locator("main"), /onerror/, view);
    assert.equal(await page.evaluate(() => document.querySelectorAll("main img, main script").length), 0, view);
  }
  await page.evaluate(() => (location.hash = "workloads"));
  await page.locator(".scroller tr.row a").first().click();
  await page.locator(".details").getByText("onerror").first().waitFor();
  assert.notEqual(await page.title(), "run");
});

test("a quota says when it is full by its trend, and that it has none yet", async () => {
  const page = await live(json(cluster()));
  const rows = await page.getByRole("region", { name: "Quotas nearly full" }).locator("tbody tr").allInnerTexts();
  const of = (quota) => rows.find((row) => row.startsWith(quota)).replaceAll(/\s+/g, " ");
  assert.match(of("payments / team"), /81% 16\.2 of 20\.0 cores full in 32 days$/);
  assert.match(of("TenantQuota / commerce"), /full in 30 days$/);
  assert.match(of("shop / team"), /shrinking$/);
  assert.match(of("ml / team"), /no trend yet$/);
  await page.getByRole("link", { name: "All quotas" }).click();
  await page.getByRole("region", { name: "ResourceQuota payments/team" }).getByText("full in 32 days").waitFor();
});

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

test("what if says once what happens to a hundred workloads for one reason", async () => {
  const page = await live(json(cluster(100)), {}, "#what-if");
  await evaluated(page);
  await paste(
    page,
    "apiVersion: v1\nkind: LimitRange\nmetadata: {name: limits}\nspec: {limits: [{type: Container, max: {memory: 100Mi}}]}\n",
  );
  const group = page.getByRole("article", { name: "100 workloads: newly rejected" });
  await group.waitFor();
  await says(
    group,
    /^newly rejected\s+100 workloads\s+namespace team-000\s+For example team-000 \/ deployment\.apps\/app-00000; names and amounts differ:\s+pods "app-00000-" is forbidden: maximum memory usage per Container is 100Mi, but request is 512Mi/,
  );
  await group.getByText("All 100").click();
  await counts(group.locator("tbody tr"), 100);
  await group.getByRole("row").filter({ hasText: "app-00005" }).getByText("but request is 3Gi").waitFor();
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
    ...section("Since yesterday"),
    ...section("Fix first", "4 containers"),
    ...section("Recent rejections", "Pods that the API server did not create"),
    ...section("Resizes of running pods", "6 changes in 7 days"),
    ...section("Quotas nearly full", "80% and more"),
    ...section("Not covered, and notes"),
    ...section("Largest savings", "13 containers request more than they need"),
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

test("on a phone the details of a workload take the place of the list", async () => {
  const page = await live(
    json(cluster()),
    { viewport: { width: 390, height: 844 } },
    "#workload=platform/statefulset/kafka/broker",
  );
  await page.locator(".details").getByText("OOM-killed 3 times at 2Gi").waitFor();
  await page.locator(".scroller").waitFor({ state: "hidden" });
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
  await details.getByText("2 pods of it exceed quota team by 1.2 cores; 4800m fits").waitFor();
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
  assert.equal((await chart.first().locator("path").getAttribute("d")).match(/h1/g).length, 336);
  await chart.first().hover({ position: { x: 5, y: 20 } });
  await says(chart.first().locator(".told"), /^\w+ \d+, \d\d:00 UTC: [\d.]+ cores$/);
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
    /1 of 3 replicas are ready[^]*2 of 3 pods are missing since 09:12[^]*exceeded quota: team[^]*kubectl headroom why[^]*HorizontalPodAutoscaler catalog sets the number of pods[^]*OOM-killed 3 times at 1Gi/,
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
  faults = faults.filter((fault) => !/502/.test(fault));
  await page.keyboard.press("Escape");
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
    /^payments \/ gateway deployment taken back gateway: not lowered until \d{4}-\d\d-\d\d \d\d:\d\d UTC A container is throttled/,
    /^search \/ ingest deployment under way ingest-7c9f6d5b48-x2v9q: worker: cpu request 1250m -> 838m, memory request 2560Mi -> 1716Mi It would be admitted so today; watched since/,
    /^shop \/ web deployment would resize pod web-6d4b9c6f5-bcdf4: would resize nginx [^]* 9 min ago$/,
    /^search \/ query deployment changed 5 lowered, 4 settled; last app: cpu request 1 -> 670m, memory request 2Gi -> 1373Mi It would be admitted so today 3 h ago$/,
    /^shop \/ catalog deployment changed 1 raised, 1 settled; last app: memory limit 1Gi -> 1229Mi It was killed for memory 44 min ago$/,
  ].entries())
    assert.match(rows[index], told);
  await section.getByRole("link", { name: "shop / web" }).click();
  await until(() => page.evaluate(() => document.activeElement.innerText), /deployment\/web/);
  const without = JSON.parse(cluster());
  delete without.items.at(-1).spec.resizes;
  await counts((await live(json(JSON.stringify(without)))).getByRole("region", { name: "Resizes of running pods" }), 0);
});

test("quotas are searched, and shown as the recommendations would leave them", async () => {
  const page = await live(json(cluster(400)), {}, "#quotas");
  const cards = page.locator(".quota");
  await page.getByLabel("Search quotas").fill("team-003");
  await counts(cards, 1);
  await page.getByLabel("After the recommendations").check();
  await says(cards.locator(".meter").first(), /19\.2 → 7\.00 of 20\.0 cores/);
  await page.getByLabel("Search quotas").fill("nowhere");
  await page.getByText("Nothing matches.").waitFor();
});

test("proposed quotas and LimitRanges stand beside today's, with reasons, what they would reject, and YAML to copy", async () => {
  let asked = 0;
  const page = await live(json(cluster()), {}, "#quotas", {
    "bounds.json": () => ++asked && json(JSON.stringify(bounds()))(),
  });
  await page.getByRole("button", { name: "Proposed" }).click();
  const card = (name) => page.getByRole("region", { name: `Proposed ${name}`, exact: true });
  const rows = async (name) =>
    (await card(name).locator("tbody").allInnerTexts()).map((row) => row.replaceAll(/\s+/g, " ").trim());
  await card("TenantQuota commerce").waitFor();
  assert.equal(
    (await rows("ResourceQuota payments/team"))[1],
    "requests.cpu 16.2 20.0 21.5 cores 5.30 2027-01-11 today 2026-12-25 16200m for 15 pods, 2 for a rollout of deployment/gateway, and 3300m for growth in 30 days",
  );
  assert.equal(
    (await rows("ResourceQuota lab/compute"))[0],
    "requests.memory 1,024 none 1,229 MiB 205 – 1Gi for 1 pod, and a fifth, since peaks and growth are not known",
  );
  assert.match(
    (await rows("LimitRange payments/limits"))[2],
    /^max memory 32\.0 GiB 16\.0 GiB twice the largest limit/,
  );
  await says(
    page.getByRole("region", { name: "Trial of all proposals" }),
    /35 objects if recreated, 2 with other values[^]*would be rejected ml \/ deployment\/trainer: exceeded quota: team/,
  );
  await card("ResourceQuota payments/team").getByRole("button", { name: "Copy YAML" }).click();
  await page.getByText("YAML of ResourceQuota team for cluster prod-eu copied.").waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), "# team\nkind: ResourceQuota\n");
  await page.getByLabel("Search quotas").fill("lab");
  await counts(page.locator(".quota"), 1);
  // They are made once, not at each look.
  await page.getByRole("button", { name: "Today" }).click();
  await page.getByRole("button", { name: "Proposed" }).click();
  await card("ResourceQuota lab/compute").waitFor();
  assert.equal(asked, 1);
  const failing = await live(json(cluster()), {}, "#quotas=proposed", {
    "bounds.json": () => ({ status: 502, contentType: "text/plain", body: "no workloads found in namespace empty\n" }),
  });
  await failing.getByRole("alert").getByText("No bounds are proposed: no workloads found in namespace empty").waitFor();
  faults = faults.filter((fault) => !fault.includes("502"));
});

test("the pictures of README and book show the page as it is", { skip: !PICTURES }, async () => {
  const options = { viewport: { width: 1280, height: 800 }, colorScheme: "light" };
  const take = async (page, name) => {
    await page.waitForTimeout(300);
    await page.screenshot({ path: join(PICTURES, `${name}.png`) });
    await page.context().close();
  };
  await take(await open("/#example=shop", options), "playground");
  await take(await live(json(cluster()), options), "overview");
  await take(await live(json(cluster()), options, "#workload=shop/deployment/catalog/app"), "workloads");
});
