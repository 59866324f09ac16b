// The pictures of README and book.

import { join } from "node:path";
import { test } from "node:test";
import { cluster } from "./cluster.mjs";
import { PICTURES, json, live, open } from "./support.mjs";

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
