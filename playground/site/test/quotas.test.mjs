// Quotas as they are and as they should be.

import assert from "node:assert/strict";
import { test } from "node:test";
import { bounds, cluster } from "./cluster.mjs";
import { counts, forgive, json, live, says } from "./support.mjs";

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
    "requests.cpu 16.2 20.0 21.5 cores 5.30 11 Jan 2027 today 25 Dec 2026 16200m for 15 pods, 2 for a rollout of deployment/gateway, and 3300m for growth in 30 days",
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
  forgive(/502/);
});
