// What needs no browser: amounts, dates, the list and its address, what a snapshot holds, groups of effects.

import assert from "node:assert/strict";
import { test } from "node:test";
import { build } from "esbuild";
import { cluster } from "./cluster.mjs";

/** The exports of some modules of the page. */
async function modules(...names) {
  const contents = names.map((name) => `export * from "./src/${name}";`).join("\n");
  const stdin = { contents, resolveDir: "." };
  const { outputFiles } = await build({
    stdin,
    bundle: true,
    format: "esm",
    write: false,
    jsx: "automatic",
    jsxImportSource: "preact",
  });
  return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].text).toString("base64")}`);
}

const { amount, forecast, inOneUnit, inWords, money, ofHard, share, thousandths } = await modules("amounts.ts");
const { LIST, listed, read, write } = await modules("list.ts");
const { freed, inspect } = await modules("inspect.ts");
const { bursts, drawing, scaled } = await modules("drawing.ts");
const { grouped } = await modules("effects.ts");
const { dated } = await modules("view/parts.tsx");

const MI = 1024 ** 2 * 1000;

test("quantities are read as Kubernetes writes them, and nothing else is", () => {
  for (const [text, expected] of [
    ["100m", 100],
    ["1.5", 1500],
    ["2Ki", 2_048_000],
    ["1e3", 1_000_000],
    [".5", 500],
    ["-2", -2000],
  ])
    assert.equal(thousandths(text), expected, text);
  for (const text of ["", "1 Gi", "1gi", "Ki", "1e", "--1", undefined])
    assert.equal(thousandths(text), undefined, text);
});

test("amounts have one unit, in which neighbors that differ read differently", () => {
  assert.deepEqual(inOneUnit("memory", [2048 * MI, 898 * MI]), { numbers: ["2,048", "898"], unit: "MiB" });
  assert.deepEqual(inOneUnit("memory", [32_768 * MI, 6963 * MI]), { numbers: ["32.0", "6.8"], unit: "GiB" });
  assert.deepEqual(inOneUnit("memory", [2048 * MI, 2060 * MI]), { numbers: ["2,048", "2,060"], unit: "MiB" });
  assert.deepEqual(inOneUnit("cpu", [2000, 23]), { numbers: ["2.00", "0.023"], unit: "cores" });
  assert.equal(amount("pods", 17_000), "17");
  assert.equal(ofHard("requests.cpu", 600, 2000, 2350), "0.60 → 2.35 of 2.00 cores");
});

test("money, shares and forecasts read as people say them", () => {
  assert.deepEqual(
    ["1241.5", 12.5, -3].map((size) => money(size, "$", size)),
    ["$1,242", "$12.50", "−$3.00"],
  );
  assert.equal(money("1241", "EUR"), "1,241 EUR");
  assert.deepEqual([share(81, 100), share(2000, 100), share(1, 0), share(0, 0)], ["81%", "20 ×", "full", ""]);
  assert.equal(forecast({ used: 10, hard: 20, perDay: 1 }), "full in 10 days");
  assert.deepEqual(
    [
      { used: 20, hard: 20 },
      { used: 1, hard: 20 },
      { used: 1, hard: 20, perDay: -1 },
    ].map(forecast),
    ["full now", "no trend yet", "shrinking"],
  );
  assert.equal(
    inWords("cpu request 1250m -> 2, memory 1229Mi of pod web-2m"),
    "CPU request 1.25 cores → 2, memory 1.2 GiB of pod web-2m",
  );
  assert.equal(inWords("waits for 5m"), "waits for 5m");
  assert.equal(dated("from 2026-11-14T11:20:00Z to 2026-12-01"), "from 14 Nov 2026, 11:20 UTC to 1 Dec 2026");
});

test("the address of a list is read as it was written", () => {
  const list = {
    ...LIST,
    q: "web & co",
    only: "risk",
    sort: "cpu",
    isFlat: true,
    at: "shop/deployment/web/nginx",
    picked: ["a/b/c/d", "e/f/g/h"],
  };
  assert.deepEqual(read(write(list).slice("#workloads?".length)), list);
  assert.equal(write(LIST), "#workloads");
  assert.deepEqual(read("sort=nonsense"), LIST);
});

test("a snapshot is known by what is in it, and its workloads are listed in order", () => {
  for (const text of ["{}", "null", "[]", '{"kind":"List"}', '{"kind":"Deployment","items":[]}', '"kind: List"'])
    assert.equal(inspect(text), null, text);
  assert.throws(() => inspect("kind: List\nitems: []\n"));
  assert.deepEqual(inspect('{"items":[],"kind":"List"}').workloads, []);
  const { workloads, quotas, context } = inspect(cluster());
  assert.deepEqual([workloads.length, quotas.length, context], [18, 7, "prod-eu"]);
  const saved = listed(workloads, { ...LIST, isFlat: true }).map(({ saved }) => saved);
  assert.deepEqual(
    saved,
    [...saved].sort((a, b) => b - a),
  );
  assert.deepEqual(
    listed(workloads, { ...LIST, only: "oomKilled" }).map(({ object }) => object),
    ["deployment/catalog", "statefulset/kafka"],
  );
  const web = workloads.filter(({ object }) => object === "deployment/web");
  const { cpu, quotas: filled } = freed(web, quotas);
  assert.equal(cpu, web[0].savedCpu);
  assert.deepEqual(
    filled.map(({ name, resource }) => `${name} ${resource}`),
    ["team requests.cpu", "team requests.memory", "commerce requests.cpu", "commerce requests.memory"],
  );
});

test("usage fills the scale, and what is far above it is beyond", () => {
  const line = { request: { value: 8000 }, limit: { value: 9000 }, recommended: { value: 440 } };
  assert.deepEqual(scaled(line, 400), {
    most: 440,
    lines: [
      { class: "request", value: 8000, isBeyond: true },
      { class: "recommended", value: 440, isBeyond: false },
    ],
  });
  assert.equal(scaled({ ...line, request: { value: 800 } }, 400).most, 800);
});

test("bursts are told as they recur", () => {
  const hour = 3_600;
  const told = (step, cpu) => {
    const course = { from: 0, step, cpu, memory: [], kills: [], releases: [] };
    return bursts(
      course,
      drawing({ resource: "cpu", usage: [{ at: "p95", value: 20 }] }, course),
      (time) => `at ${time / hour}`,
    );
  };
  const each = (length, every) => Array.from({ length }, (_, index) => (index % every === 0 ? 2000 : 20));
  assert.equal(told(hour, each(336, 6)), "about 4 times a day");
  assert.equal(told(hour, each(336, 24)), "about once a day");
  assert.equal(told(hour, each(336, 112)), "3 times");
  assert.equal(
    told(
      hour,
      Array.from({ length: 336 }, (_, index) => (index > 9 && index < 13 ? 90 : 20)),
    ),
    "once, at 10",
  );
  assert.equal(told(24 * hour, each(14, 7)), "on 2 of 14 days");
  assert.equal(told(24 * hour, each(14, 14)), "once, at 0");
  assert.equal(told(hour, each(336, 400).fill(30)), "");
});

test("what may need more than it used is not lowered calmly", () => {
  const list = JSON.parse(cluster());
  const { advice } = list.items.at(-1).spec;
  const doubt = (object) => inspect(JSON.stringify(list)).workloads.find((of) => of.object === object).doubt;
  assert.equal(doubt("deployment/query"), "");
  assert.equal(doubt("cronjob/settlement"), "nightly");
  assert.match(doubt("deployment/trainer"), /^it would be blocked: 2 pods of it exceed/);
  const line = advice.lines.find(({ object, resource }) => object === "deployment/query" && resource === "cpu");
  line.recommended.value = 50;
  assert.equal(doubt("deployment/query"), "it uses almost none of its CPU: is it kept for later?");
});

test("effects for one reason are one group, whatever their names and amounts", () => {
  const effect = (name, amount) => ({
    change: "newly rejected",
    namespace: "a",
    object: `pod/${name}`,
    running: 2,
    reasons: [`pods "${name}" is forbidden: limit is ${amount}`],
  });
  const [group, ...rest] = grouped([effect("x", "1Gi"), effect("y", "2Gi")]);
  assert.deepEqual([group.effects.length, group.running, group.isSame, rest.length], [2, 4, false, 0]);
  assert.equal(grouped([effect("x", "1Gi"), effect("y", "1Gi")])[0].isSame, true);
});
