// Starts the engine and asks it the first question, while the editor, which is most of the page, is still being loaded. A page
// with a cluster behind it needs neither examples nor a first verdict.

import { engine } from "./engine.js";
import { type Beginning, beginning } from "./link.js";
import type { Example } from "./types.js";

const isLive = document.documentElement.dataset.live !== undefined;

try {
  const page = import("./start.js");
  let examples: Example[] = [];
  let first: Beginning = { state: { namespace: "", panels: {} } };
  if (!isLive) {
    const response = await fetch("examples.json");
    if (!response.ok) throw new Error(`examples.json: ${response.status} ${response.statusText}`);
    examples = (await response.json()) as Example[];
    first = await beginning(examples);
    engine.evaluateEarly(first.state);
  }
  (await page).start(examples, first, isLive);
} catch (error) {
  const why =
    location.protocol === "file:"
      ? "Open this page through a web server: browsers do not let pages in files load their parts."
      : String((error as Error).message ?? error);
  document.getElementById("loading")!.textContent = `The page could not be loaded. ${why}`;
  document.documentElement.dataset.state = "failed";
}
